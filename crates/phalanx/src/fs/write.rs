//! Writing files: creating and opening them beneath a directory, writing, and flushing to the disk.
//!
//! Nothing is buffered or merged here: a write is one request to the kernel, at an offset that the caller chooses. A
//! log must track its own end, and should call [`File::sync_data`] once for all operations of a cohort.

use std::ffi::CString;
use std::io;

use bytes::Bytes;
use phalanx_driver::{Access, Done, OpenHow, Request, SymlinkPolicy};

use super::{Dir, File, Space};
use crate::io::{IoTimeout, request};

impl Dir {
    /// Opens `path` for reading and writing, beneath this directory. Creates the file if it does not exist, and keeps
    /// its content if it does. `links` is as in [`open_file`](Self::open_file). The new name is durable after a
    /// [`sync`](Self::sync) of the directory.
    ///
    /// # Errors
    /// The errors of [`open_file`](Self::open_file), and `EISDIR`, `EACCES` and `ENOSPC` like `open(2)`.
    pub async fn create(&self, path: &[u8], links: impl Into<SymlinkPolicy>) -> io::Result<File> {
        self.open_for(path, OpenHow { links: links.into(), access: Access::Create }).await
    }

    /// Like [`create`](Self::create), but without following links. Only its owner can access a new file (mode 0600).
    ///
    /// # Errors
    /// The errors of [`create`](Self::create).
    pub async fn create_private(&self, path: &[u8]) -> io::Result<File> {
        self.open_for(path, OpenHow { links: SymlinkPolicy::Deny, access: Access::CreatePrivate })
            .await
    }

    /// The size of the file system that contains this directory, and its free space. This call may block: use it on a
    /// [blocking stage](crate::blocking::blocking).
    ///
    /// ```
    /// use phalanx::fs::Dir;
    ///
    /// let space = Dir::open(&std::env::temp_dir())?.space()?;
    /// let percent_free = 100 * space.available / space.total.max(1);
    /// assert!(percent_free <= 100);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of `fstatvfs(3)`.
    pub fn space(&self) -> io::Result<Space> {
        self.0.space()
    }

    /// Like [`create`](Self::create), but the file must not exist.
    ///
    /// # Errors
    /// The errors of [`create`](Self::create); [`AlreadyExists`](io::ErrorKind::AlreadyExists) if the name exists, even
    /// as a link to a missing file.
    pub async fn create_new(&self, path: &[u8]) -> io::Result<File> {
        self.open_for(path, OpenHow { links: SymlinkPolicy::Deny, access: Access::CreateNew }).await
    }

    /// Opens the existing file `path` for reading and writing, beneath this directory. `links` is as in
    /// [`open_file`](Self::open_file).
    ///
    /// # Errors
    /// The errors of [`create`](Self::create); [`NotFound`](io::ErrorKind::NotFound) if it does not exist.
    pub async fn open_write(
        &self,
        path: &[u8],
        links: impl Into<SymlinkPolicy>,
    ) -> io::Result<File> {
        self.open_for(path, OpenHow { links: links.into(), access: Access::Write }).await
    }

    async fn open_for(&self, path: &[u8], how: OpenHow) -> io::Result<File> {
        let path = CString::new(path).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.open_by_driver(path, how).await
    }

    /// Removes the file `name` from this directory. If the file is open, it stays usable. This call may block, so use
    /// it on a [blocking stage](crate::blocking::blocking); a directory may be moved there.
    ///
    /// # Errors
    /// The errors of `unlink(2)`, such as [`NotFound`](io::ErrorKind::NotFound) if it does not exist. `InvalidInput`
    /// for a name with a slash or a zero byte.
    pub fn remove(&self, name: &[u8]) -> io::Result<()> {
        let name = CString::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.0.remove(&name)
    }

    /// Flushes this directory to the disk, including the names of files created before this call.
    ///
    /// # Errors
    /// The errors of `fsync(2)`.
    pub async fn sync(&self) -> io::Result<()> {
        sync(Request::Sync { file: self.0.clone(), data_only: false }).await
    }
}

impl File {
    /// Writes all of `bytes` at `offset` to the page cache; [`sync_data`] flushes them to the disk. Concurrent writes
    /// are not ordered. Dropping the future cancels the write; it is then unknown how much was written.
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
    /// The errors of `pwrite(2)`, such as `ENOSPC`, `EFBIG`, or `EBADF` for a file opened for reading. A part of
    /// `bytes` may have been written. `InvalidInput` for a range that ends beyond 2⁶³ bytes.
    ///
    /// [`sync_data`]: Self::sync_data
    pub async fn write_at(&self, offset: u64, bytes: impl Into<Bytes>) -> io::Result<()> {
        let write = Request::WriteAt { file: self.0.clone(), bytes: bytes.into(), offset };
        match request(write, IoTimeout::NONE).await? {
            Done::Written => Ok(()),
            other => unreachable!("write completed with {other:?}"),
        }
    }

    /// Allocates disk space for the first `length` bytes of this file, and extends the file to that length if it is
    /// shorter. This call may block: use it on a [blocking stage](crate::blocking::blocking).
    ///
    /// # Errors
    /// The errors of `fallocate(2)`, such as `ENOSPC` if there is too little space; part of it may then have been
    /// allocated. [`Unsupported`](io::ErrorKind::Unsupported) if the file system or the operating system does not
    /// support the call.
    pub fn allocate(&self, length: u64) -> io::Result<()> {
        self.0.allocate(length)
    }

    /// Flushes completed writes to the disk, with the metadata needed to read them (`fdatasync`). Use it for a log.
    ///
    /// # Errors
    /// The errors of `fsync(2)`. The kernel reports an error only once. Afterwards it is unknown which bytes are on the
    /// disk, so write them again to another file, or stop.
    pub async fn sync_data(&self) -> io::Result<()> {
        sync(Request::Sync { file: self.0.clone(), data_only: true }).await
    }

    /// Like [`sync_data`](Self::sync_data), but also flushes all metadata (`fsync`).
    ///
    /// # Errors
    /// The errors of [`sync_data`](Self::sync_data).
    pub async fn sync_all(&self) -> io::Result<()> {
        sync(Request::Sync { file: self.0.clone(), data_only: false }).await
    }
}

async fn sync(sync: Request) -> io::Result<()> {
    match request(sync, IoTimeout::NONE).await? {
        Done::Synced => Ok(()),
        other => unreachable!("sync completed with {other:?}"),
    }
}
