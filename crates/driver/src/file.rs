//! An open file or directory, by a handle: a descriptor, or a node of a simulated disk.
//!
//! What can be had without waiting is had here, by calls on the handle that refuse to wait. All
//! else is a [`Request`](crate::Request).

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, Mode, OFlags};

use crate::OpenHow;
use crate::mmap::Window;
use crate::read_dir::DirEntries;
use crate::sim::Node;

/// An open file or directory. Clones share it; it is closed with the last of them.
#[derive(Clone, Debug)]
pub struct File(Inner);

#[derive(Clone, Debug)]
enum Inner {
    Real(Arc<Descriptor>),
    Simulated(Node),
}

/// The kernel's, and what of it was mapped last, to be sent.
#[derive(Debug)]
pub(crate) struct Descriptor {
    fd: OwnedFd,
    window: Mutex<Option<Arc<Window>>>,
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl Descriptor {
    /// The window that holds the byte at `at`, of a file that is `length` bytes long and has it.
    ///
    /// # Errors
    /// As `mmap(2)`.
    pub(crate) fn window(&self, at: u64, length: u64) -> io::Result<Arc<Window>> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(window) = window.as_ref().filter(|window| window.holds(at) > 0) {
            return Ok(Arc::clone(window));
        }
        let new = Arc::new(Window::open(self.as_fd(), at, length)?);
        *window = Some(Arc::clone(&new));
        Ok(new)
    }
}

/// What is known of a file without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// What it is.
    pub kind: FileKind,
    /// In bytes.
    pub length: u64,
    /// Last change of the content, in nanoseconds since 1970.
    pub modified_ns: i128,
    /// Tells it from other files of the same file system.
    pub inode: u64,
    /// The file system's.
    pub device: u64,
}

/// The room of a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Of the whole file system.
    pub total: u64,
    /// Free for processes that are not root's.
    pub available: u64,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A pipe, socket or device.
    Other,
}

/// What [`File::read_now`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadNow {
    /// So many bytes were read.
    pub bytes: usize,
    /// That is all that was asked for, or up to the file's end; else the rest needs a disk.
    pub complete: bool,
}

impl From<OwnedFd> for File {
    fn from(fd: OwnedFd) -> Self {
        Self(Inner::Real(Arc::new(Descriptor { fd, window: Mutex::default() })))
    }
}

impl From<std::fs::File> for File {
    fn from(file: std::fs::File) -> Self {
        OwnedFd::from(file).into()
    }
}

impl From<Node> for File {
    fn from(node: Node) -> Self {
        Self(Inner::Simulated(node))
    }
}

impl File {
    /// Opens a directory. This call may block: it is for the start of a program.
    ///
    /// # Errors
    /// As `open(2)`.
    pub fn directory(path: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
    }

    /// The descriptor.
    ///
    /// # Errors
    /// `EBADF` for a simulated file, which has none.
    pub fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        match &self.0 {
            Inner::Real(fd) => Ok(fd.as_fd()),
            Inner::Simulated(_) => Err(io::Error::from_raw_os_error(libc::EBADF)),
        }
    }

    /// The descriptor, shared, for as long as the kernel works on it. Errors as [`File::fd`].
    pub(crate) fn shared_fd(&self) -> io::Result<Arc<Descriptor>> {
        match &self.0 {
            Inner::Real(fd) => Ok(Arc::clone(fd)),
            Inner::Simulated(_) => Err(io::Error::from_raw_os_error(libc::EBADF)),
        }
    }

    /// The simulated file; `EBADF` for one of the kernel's.
    pub(crate) fn simulated(&self) -> io::Result<&Node> {
        match &self.0 {
            Inner::Real(_) => Err(io::Error::from_raw_os_error(libc::EBADF)),
            Inner::Simulated(node) => Ok(node),
        }
    }

    /// Opens `path` beneath this directory as [`Request::Open`](crate::Request::Open) does, but only
    /// if that needs no disk. None if it may.
    pub fn open_now(&self, path: &CStr, how: OpenHow) -> Option<io::Result<Self>> {
        match &self.0 {
            Inner::Real(fd) => {
                crate::page_cache::open(fd.as_fd(), path, how).map(|fd| fd.map(Self::from))
            }
            Inner::Simulated(node) => node.open_now(path, how).map(|node| node.map(Self::from)),
        }
    }

    /// Reads from `offset` what is in memory, without waiting for a disk.
    ///
    /// # Errors
    /// As `read(2)`.
    pub fn read_now(&self, buffer: &mut [u8], offset: u64) -> io::Result<ReadNow> {
        match &self.0 {
            Inner::Real(fd) => crate::page_cache::read(fd.as_fd(), buffer, offset),
            Inner::Simulated(node) => node.read_now(buffer, offset),
        }
    }

    /// Reads up to `length` bytes from `offset`; fewer only at the end of the file. This call may block: it
    /// is for a thread that may.
    ///
    /// # Errors
    /// As `read(2)`. `InvalidInput` for what lies beyond any file's end, 2⁶³ bytes.
    pub fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        if offset.checked_add(length as u64).is_none_or(|end| end > i64::MAX as u64) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut buffer = vec![0; length];
        let mut bytes = 0;
        match &self.0 {
            Inner::Real(fd) => {
                while bytes < length {
                    match rustix::io::pread(fd, &mut buffer[bytes..], offset + bytes as u64) {
                        Ok(0) => break,
                        Ok(more) => bytes += more,
                        Err(rustix::io::Errno::INTR) => (),
                        Err(error) => return Err(error.into()),
                    }
                }
                buffer.truncate(bytes);
            }
            Inner::Simulated(node) => node.read(&mut buffer, offset, length)?,
        }
        Ok(buffer)
    }

    /// The names in this directory for which `keep` is true, at most `most` of them; neither `.` nor
    /// `..` is told of. This call may block: it is for a thread that may.
    ///
    /// # Errors
    /// As `readdir(3)` and `fstatat(2)`; `ENOTDIR` for what is no directory.
    pub fn read_dir(&self, most: usize, keep: &dyn Fn(&[u8]) -> bool) -> io::Result<DirEntries> {
        match &self.0 {
            Inner::Real(fd) => crate::read_dir::read_dir(fd.as_fd(), most, keep),
            Inner::Simulated(node) => node.read_dir(most, keep),
        }
    }

    /// Takes the name of a file out of this directory; who has the file open keeps it. This call may
    /// block: it is for a thread that may.
    ///
    /// # Errors
    /// As `unlink(2)`; `EINVAL` for a path that leads through other directories.
    pub fn remove(&self, name: &CStr) -> io::Result<()> {
        if name.to_bytes().contains(&b'/') {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        match &self.0 {
            Inner::Real(fd) => Ok(rustix::fs::unlinkat(fd, name, AtFlags::empty())?),
            Inner::Simulated(node) => node.remove(name),
        }
    }

    /// Has the file system set room aside for the first `length` bytes of this file, which is that long then at least. This
    /// call may block: it is for a thread that may.
    ///
    /// # Errors
    /// As `fallocate(2)`: `ENOSPC` when there is too little room, of which some may be taken then; `EOPNOTSUPP` where the
    /// file system or the operating system has no such call.
    pub fn allocate(&self, length: u64) -> io::Result<()> {
        match &self.0 {
            #[cfg(target_os = "linux")]
            Inner::Real(fd) => {
                use rustix::fs::{FallocateFlags, fallocate};
                Ok(fallocate(fd, FallocateFlags::empty(), 0, length)?)
            }
            #[cfg(not(target_os = "linux"))]
            Inner::Real(_) => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
            Inner::Simulated(node) => node.allocate(length),
        }
    }

    /// The room of the file system that this file is in. This call may block: it is for a thread that may.
    ///
    /// # Errors
    /// As `fstatvfs(3)`.
    pub fn space(&self) -> io::Result<Space> {
        match &self.0 {
            Inner::Real(fd) => {
                let found = rustix::fs::fstatvfs(fd)?;
                let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
                Ok(Space { total: bytes(found.f_blocks), available: bytes(found.f_bavail) })
            }
            Inner::Simulated(node) => Ok(node.space()),
        }
    }

    /// What it is, how long, and when it was changed. An open file's are in memory.
    ///
    /// # Errors
    /// As `fstat(2)`.
    pub fn metadata(&self) -> io::Result<Metadata> {
        match &self.0 {
            Inner::Real(fd) => crate::page_cache::metadata(fd.as_fd()),
            Inner::Simulated(node) => Ok(node.metadata()),
        }
    }
}
