//! The handle of an open file or directory, which is a descriptor or a node of a simulated disk.
//!
//! Calls that need no disk access are methods of the handle and never wait. All other calls are
//! [`Request`](crate::Request)s or say that they may block.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
#[cfg(target_os = "linux")]
use std::sync::OnceLock;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use std::{fs, io};

use rustix::fs::AtFlags;

use crate::OpenHow;
use crate::files::mmap::Window;
use crate::files::page_cache::{self, Probed};
use crate::files::read_dir::DirEntries;
use crate::sim::Node;

/// An open file or directory. Clones share the descriptor; dropping the last clone closes it.
#[derive(Clone, Debug)]
pub struct File(Inner);

#[derive(Clone, Debug)]
enum Inner {
    Real(Arc<Descriptor>),
    Simulated(Node),
}

/// A descriptor, and the parts of the file that were most recently mapped and probed for sending.
#[derive(Debug)]
pub(crate) struct Descriptor {
    fd: OwnedFd,
    window: Mutex<Option<Arc<Window>>>,
    probed: Mutex<Option<Probed>>,
    /// Whether the file has offsets, once it is known.
    #[cfg(target_os = "linux")]
    has_offsets: OnceLock<bool>,
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

impl From<OwnedFd> for Descriptor {
    fn from(fd: OwnedFd) -> Self {
        Self {
            fd,
            window: Mutex::default(),
            probed: Mutex::default(),
            #[cfg(target_os = "linux")]
            has_offsets: OnceLock::new(),
        }
    }
}

impl Descriptor {
    /// Checks that the file has offsets, with one system call per file. `pread(2)` does the same, but io_uring ignores
    /// the offset and waits for the bytes of a pipe.
    ///
    /// # Errors
    /// `ESPIPE` for a pipe, a socket or a terminal.
    #[cfg(target_os = "linux")]
    pub(crate) fn check_offsets(&self) -> io::Result<()> {
        let ask = || rustix::fs::tell(self) != Err(rustix::io::Errno::SPIPE);
        if *self.has_offsets.get_or_init(ask) {
            return Ok(());
        }
        Err(io::Error::from_raw_os_error(libc::ESPIPE))
    }

    /// Like [`page_cache::resident`], without a call if the bytes were in the page cache a moment ago.
    ///
    /// # Errors
    /// The errors of `read(2)`.
    pub(crate) fn resident(
        &self,
        offset: u64,
        length: usize,
        calls: &mut u64,
    ) -> io::Result<usize> {
        let now = Instant::now();
        let probed = || self.probed.lock().unwrap_or_else(PoisonError::into_inner);
        if probed().is_some_and(|probed| probed.covers(offset, length, now)) {
            return Ok(length);
        }
        let bytes = page_cache::resident(self.as_fd(), offset, length, calls)?;
        *probed() = Some(Probed::new(offset, bytes, now));
        Ok(bytes)
    }

    /// The mapped window that contains the byte at `at`, which must be within the file's `length`.
    ///
    /// # Errors
    /// The errors of `mmap(2)`.
    pub(crate) fn window(&self, at: u64, length: u64) -> io::Result<Arc<Window>> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(window) = window.as_ref().filter(|window| window.mapped_from(at) > 0) {
            return Ok(Arc::clone(window));
        }
        let new = Arc::new(Window::open(self.as_fd(), at, length)?);
        *window = Some(Arc::clone(&new));
        Ok(new)
    }
}

/// A file's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// The type of the file.
    pub kind: FileKind,
    /// The length in bytes.
    pub length: u64,
    /// The time of the last change of the content, in nanoseconds since 1970.
    pub modified_ns: i128,
    /// The time of the last change of the content, the owner, the mode or the links, in nanoseconds since 1970.
    /// Programs cannot set it.
    pub changed_ns: i128,
    /// Identifies the file within its file system.
    pub inode: u64,
    /// Identifies the file system.
    pub device: u64,
}

/// The size of a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// The size of the whole file system.
    pub total: u64,
    /// The free space for unprivileged processes.
    pub available: u64,
}

/// The type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A pipe, socket or device.
    Other,
}

/// The result of [`File::read_now`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadNow {
    /// The number of bytes read.
    pub bytes: usize,
    /// Whether the read is complete, that is, contains all requested bytes or reaches the end of the file. Otherwise
    /// the rest is not in the page cache.
    pub complete: bool,
}

impl From<OwnedFd> for File {
    fn from(fd: OwnedFd) -> Self {
        Self(Inner::Real(Arc::new(fd.into())))
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
    /// Opens a directory. This call may block; use it when a program starts.
    ///
    /// # Errors
    /// The errors of `open(2)`.
    pub fn directory(path: &Path) -> io::Result<Self> {
        let directory =
            fs::OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(path)?;
        Ok(OwnedFd::from(directory).into())
    }

    /// The file's descriptor.
    ///
    /// # Errors
    /// `EBADF` for a simulated file.
    pub fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        match &self.0 {
            Inner::Real(fd) => Ok(fd.as_fd()),
            Inner::Simulated(_) => Err(io::Error::from_raw_os_error(libc::EBADF)),
        }
    }

    /// The shared descriptor, which stays open while the kernel uses it. Fails like [`File::fd`].
    pub(crate) fn shared_fd(&self) -> io::Result<Arc<Descriptor>> {
        match &self.0 {
            Inner::Real(fd) => Ok(Arc::clone(fd)),
            Inner::Simulated(_) => Err(io::Error::from_raw_os_error(libc::EBADF)),
        }
    }

    /// The simulated file; `EBADF` for a file of the kernel.
    pub(crate) fn simulated(&self) -> io::Result<&Node> {
        match &self.0 {
            Inner::Real(_) => Err(io::Error::from_raw_os_error(libc::EBADF)),
            Inner::Simulated(node) => Ok(node),
        }
    }

    /// Opens `path` beneath this directory like [`Request::Open`](crate::Request::Open), without waiting for a disk.
    /// Returns `None` if it might have to wait.
    pub fn open_now(&self, path: &CStr, how: OpenHow) -> Option<io::Result<Self>> {
        match &self.0 {
            Inner::Real(fd) => page_cache::open(fd.as_fd(), path, how).map(|fd| fd.map(Self::from)),
            Inner::Simulated(node) => node.open_now(path, how).map(|node| node.map(Self::from)),
        }
    }

    /// Opens `path` beneath this directory like [`Request::Open`](crate::Request::Open). May block; call it only on
    /// threads that may block.
    ///
    /// # Errors
    /// The errors of [`Request::Open`](crate::Request::Open); `WouldBlock` for a simulated file that is not in memory.
    pub fn open_blocking(&self, path: &CStr, how: OpenHow) -> io::Result<Self> {
        match &self.0 {
            Inner::Real(fd) => {
                crate::files::resolve_beneath::open(fd.as_fd(), path, how).map(Self::from)
            }
            Inner::Simulated(_) => {
                self.open_now(path, how).unwrap_or(Err(io::ErrorKind::WouldBlock.into()))
            }
        }
    }

    /// Reads bytes from `offset` that are in the page cache, without waiting for a disk.
    ///
    /// # Errors
    /// The errors of `read(2)`.
    pub fn read_now(&self, buffer: &mut [u8], offset: u64) -> io::Result<ReadNow> {
        match &self.0 {
            Inner::Real(fd) => page_cache::read(fd.as_fd(), buffer, offset),
            Inner::Simulated(node) => node.read_now(buffer, offset),
        }
    }

    /// Reads up to `length` bytes from `offset`; fewer only at the end of the file. May block; call it only on threads
    /// that may block.
    ///
    /// # Errors
    /// The errors of `read(2)`. `InvalidInput` for a range that ends beyond 2⁶³ bytes, `OutOfMemory` if there is no
    /// memory for `length` bytes.
    pub fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut buffer = Vec::new();
        match &self.0 {
            Inner::Real(fd) => crate::files::read::read(fd.as_fd(), buffer, offset, length),
            Inner::Simulated(node) => {
                crate::files::read::check_range(offset, length)?;
                node.read(&mut buffer, offset, length)?;
                Ok(buffer)
            }
        }
    }

    /// Lists at most `limit` entries of this directory whose names `filter` accepts, without `.` and `..`. May block;
    /// call it only on threads that may block.
    ///
    /// # Errors
    /// The errors of `readdir(3)` and `fstatat(2)`; `ENOTDIR` if this is not a directory.
    pub fn read_dir(&self, limit: usize, filter: &dyn Fn(&[u8]) -> bool) -> io::Result<DirEntries> {
        match &self.0 {
            Inner::Real(fd) => crate::files::read_dir::read_dir(fd.as_fd(), limit, filter),
            Inner::Simulated(node) => node.read_dir(limit, filter),
        }
    }

    /// Removes a file's name from this directory. If the file is open, it stays readable and writable. May block; call
    /// it only on threads that may block.
    ///
    /// # Errors
    /// The errors of `unlink(2)`; `EINVAL` for a path with a slash.
    pub fn remove(&self, name: &CStr) -> io::Result<()> {
        if name.to_bytes().contains(&b'/') {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        match &self.0 {
            Inner::Real(fd) => Ok(rustix::fs::unlinkat(fd, name, AtFlags::empty())?),
            Inner::Simulated(node) => node.remove(name),
        }
    }

    /// Allocates disk space for the first `length` bytes of this file, and extends the file to that length if it is
    /// shorter. May block; call it only on threads that may block.
    ///
    /// # Errors
    /// The errors of `fallocate(2)`, such as `ENOSPC` if there is too little space; part of it may then have been
    /// allocated. `EOPNOTSUPP` if the file system or the operating system does not support the call.
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

    /// The size of the file system that contains this file, and its free space. May block; call it only on threads that
    /// may block.
    ///
    /// # Errors
    /// The errors of `fstatvfs(3)`.
    pub fn space(&self) -> io::Result<Space> {
        match &self.0 {
            Inner::Real(fd) => {
                let status = rustix::fs::fstatvfs(fd)?;
                let bytes = |blocks: u64| blocks.saturating_mul(status.f_frsize);
                Ok(Space { total: bytes(status.f_blocks), available: bytes(status.f_bavail) })
            }
            Inner::Simulated(node) => Ok(node.space()),
        }
    }

    /// The metadata, which is in memory for an open file.
    ///
    /// # Errors
    /// The errors of `fstat(2)`.
    pub fn metadata(&self) -> io::Result<Metadata> {
        match &self.0 {
            Inner::Real(fd) => page_cache::metadata(fd.as_fd()),
            Inner::Simulated(node) => Ok(node.metadata()),
        }
    }
}
