//! Writing files: made and opened beneath a directory, written by the driver, brought to the disk
//! when asked.
//!
//! Nothing here is cached or gathered: a write is one request to the kernel, and where it goes is
//! the caller's to say. A log knows its own end, and a cohort of it shares one [`File::sync_data`].

use std::ffi::CString;
use std::io;

use bytes::Bytes;
use phalanx_driver::{Access, Done, Links, OpenHow, Request};

use super::{Dir, File, Space};
use crate::io::{IoTimeout, request};

impl Dir {
    /// Opens `path` for reading and writing, beneath this directory; makes it when it is not there
    /// and keeps its content when it is. `follow_links` as in [`open_file`](Self::open_file).
    /// The new name is on the disk after a [`sync`](Self::sync) of the directory.
    ///
    /// # Errors
    /// As [`open_file`](Self::open_file), and `EISDIR`, `EACCES`, `ENOSPC` as `open(2)`.
    pub async fn create(&self, path: &[u8], follow_links: bool) -> io::Result<File> {
        self.open_for(path, OpenHow { links: follow_links.into(), access: Access::Create }).await
    }

    /// As [`create`](Self::create), without following links; a file that is made is its owner's alone (mode 0600).
    ///
    /// # Errors
    /// As there.
    pub async fn create_private(&self, path: &[u8]) -> io::Result<File> {
        self.open_for(path, OpenHow { links: Links::Refused, access: Access::CreatePrivate }).await
    }

    /// The room of the file system that this directory is in. This call may block: it is for a
    /// [blocking stage](crate::blocking::blocking).
    ///
    /// # Errors
    /// As `fstatvfs(3)`.
    pub fn space(&self) -> io::Result<Space> {
        self.0.space()
    }

    /// As [`create`](Self::create), and it is this call that makes the file.
    ///
    /// # Errors
    /// As there; [`AlreadyExists`](io::ErrorKind::AlreadyExists) when the name is taken, be it by a
    /// link to nowhere.
    pub async fn create_new(&self, path: &[u8]) -> io::Result<File> {
        self.open_for(path, OpenHow { links: Links::Refused, access: Access::CreateNew }).await
    }

    /// Opens `path`, which is there, for reading and writing, beneath this directory.
    ///
    /// # Errors
    /// As [`create`](Self::create); [`NotFound`](io::ErrorKind::NotFound) when it is not there.
    pub async fn open_write(&self, path: &[u8], follow_links: bool) -> io::Result<File> {
        self.open_for(path, OpenHow { links: follow_links.into(), access: Access::Write }).await
    }

    async fn open_for(&self, path: &[u8], how: OpenHow) -> io::Result<File> {
        let path = CString::new(path).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.open_by_driver(path, how).await
    }

    /// Takes the file called `name` out of this directory; who has it open keeps it. This call may
    /// block: it is for a [blocking stage](crate::blocking::blocking), to which a directory may be sent.
    ///
    /// # Errors
    /// As `unlink(2)`: [`NotFound`](io::ErrorKind::NotFound) when it is not there. `InvalidInput` for a
    /// path that leads through other directories, or has a zero byte.
    pub fn remove(&self, name: &[u8]) -> io::Result<()> {
        let name = CString::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.0.remove(&name)
    }

    /// Has the names in this directory reach the disk, those of files made before this call.
    ///
    /// # Errors
    /// As `fsync(2)`.
    pub async fn sync(&self) -> io::Result<()> {
        sync(Request::Sync { file: self.0.clone(), data_only: false }).await
    }
}

impl File {
    /// Writes all of `bytes` at `offset`, to where it can be read again; [`sync_data`] brings it to
    /// the disk. Two writes in flight at once are in no order. Dropping the future gives up the
    /// write, of which nothing, a part or all is done then.
    ///
    /// ```
    /// # use phalanx::{Graph, Runtime, fs::Dir};
    /// async fn append(dir: &Dir, line: &'static str) -> std::io::Result<()> {
    ///     let log = dir.create(b"log", false).await?;
    ///     let end = log.metadata()?.length;
    ///     log.write_at(end, line).await?;
    ///     log.sync_data().await
    /// }
    /// # let home = tempfile::tempdir()?;
    /// # let dir = Dir::open(home.path())?;
    /// # let mut graph = Graph::new();
    /// # let stage = graph.shared("stage", ());
    /// # Runtime::new().processors(1).signals(false).run(graph, move |start| {
    /// #     let (control, dir) = (start.control(), dir.clone());
    /// #     stage.dispatch(move |_| async move {
    /// #         for line in ["one\n", "two\n"] {
    /// #             append(&dir, line).await.unwrap();
    /// #         }
    /// #         control.drain();
    /// #     })?;
    /// #     Ok(())
    /// # }).unwrap();
    /// # assert_eq!(std::fs::read(home.path().join("log"))?, b"one\ntwo\n");
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// As `pwrite(2)`: `ENOSPC`, `EFBIG`, `EBADF` for a file opened for reading. A part may have been
    /// written then. `InvalidInput` for what lies beyond any file's end, 2⁶³ bytes.
    ///
    /// [`sync_data`]: Self::sync_data
    pub async fn write_at(&self, offset: u64, bytes: impl Into<Bytes>) -> io::Result<()> {
        let write = Request::WriteAt { file: self.0.clone(), bytes: bytes.into(), offset };
        match request(write, IoTimeout::NONE).await? {
            Done::Written => Ok(()),
            other => unreachable!("write came to {other:?}"),
        }
    }

    /// Has the file system set room aside for the first `length` bytes of this file, which is that long then at least. This
    /// call may block: it is for a [blocking stage](crate::blocking::blocking).
    ///
    /// # Errors
    /// As `fallocate(2)`: `ENOSPC` when there is too little room, of which some may be taken then;
    /// [`Unsupported`](io::ErrorKind::Unsupported) where the file system or the operating system has no such call.
    pub fn allocate(&self, length: u64) -> io::Result<()> {
        self.0.allocate(length)
    }

    /// Has what was written before this call, and was answered, reach the disk, with what is needed
    /// to read it again (`fdatasync`). The usual call for a log.
    ///
    /// # Errors
    /// As `fsync(2)`. An error is told once, and then nobody knows what was kept: write it anew,
    /// elsewhere, or stop.
    pub async fn sync_data(&self) -> io::Result<()> {
        sync(Request::Sync { file: self.0.clone(), data_only: true }).await
    }

    /// As [`sync_data`](Self::sync_data), with all that is known of the file (`fsync`).
    ///
    /// # Errors
    /// As there.
    pub async fn sync_all(&self) -> io::Result<()> {
        sync(Request::Sync { file: self.0.clone(), data_only: false }).await
    }
}

async fn sync(sync: Request) -> io::Result<()> {
    match request(sync, IoTimeout::NONE).await? {
        Done::Synced => Ok(()),
        other => unreachable!("sync came to {other:?}"),
    }
}
