//! Files of a worker: opened per request and read through the page cache.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use phalanx_http::{Entity, Validators, content_type};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use rustix::io::Errno;

/// An open file and its metadata.
pub(super) struct File {
    fd: OwnedFd,
    pub(super) length: u64,
    pub(super) modified: u64,
    pub(super) etag: String,
    pub(super) entity: Entity,
}

/// Opens a regular file beneath `root`. `None` for anything else, and for paths that leave it.
pub(super) fn open(root: impl AsFd, path: &[u8]) -> io::Result<Option<File>> {
    let (how, beneath) =
        (OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, ResolveFlags::BENEATH);
    let fd = match openat2(&root, path, how, Mode::empty(), beneath) {
        // Valgrind does not know the call. Sites have no links.
        Err(Errno::NOSYS) if path.split(|byte| *byte == b'/').all(|part| part != b"..") => {
            openat(root, path, how | OFlags::NOFOLLOW, Mode::empty())?
        }
        opened => opened?,
    };
    let stat = fstat(&fd)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    let length = u64::try_from(stat.st_size).unwrap_or_default();
    let modified = u64::try_from(stat.st_mtime).unwrap_or_default();
    let etag = format!("\"{modified:x}.{:x}-{length:x}\"", stat.st_mtime_nsec);
    let validators = Validators { etag: &etag, modified };
    let entity = Entity::new(content_type(path), &validators, length, &[]);
    Ok(Some(File { fd, length, modified, etag, entity }))
}

impl File {
    pub(super) fn validators(&self) -> Validators<'_> {
        Validators { etag: &self.etag, modified: self.modified }
    }

    /// Fills `buffer` with the bytes from `offset` on.
    ///
    /// # Errors
    /// When reading fails, also because the file was truncated.
    pub(super) fn read(&self, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            match rustix::io::pread(&self.fd, &mut *buffer, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    buffer = &mut buffer[read..];
                    offset += read as u64;
                }
                Err(Errno::INTR) => (),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
