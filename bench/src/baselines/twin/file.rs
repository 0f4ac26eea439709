//! Files of a worker: opened per request and read through the page cache.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use phalanx_http::{ContentType, Head, Validators, content_type, format_date};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use rustix::io::Errno;

/// An open file and its metadata.
pub(super) struct File {
    fd: OwnedFd,
    pub(super) length: u64,
    pub(super) modified: u64,
    pub(super) etag: String,
    content_type: ContentType,
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
    Ok(Some(File { fd, length, modified, etag, content_type: content_type(path) }))
}

impl File {
    pub(super) fn validators(&self) -> Validators<'_> {
        Validators { etag: &self.etag, modified: self.modified }
    }

    /// Appends the header fields that a 304 response carries as well. Not an [`Entity`](phalanx_http::Entity), which would
    /// also encode them for HTTP/2, in vain.
    pub(super) fn identify<'h>(&self, head: Head<'h>) -> Head<'h> {
        head.field("ETag", self.etag.as_bytes()).field("Last-Modified", &format_date(self.modified))
    }

    /// Appends all of its fields but the length.
    pub(super) fn describe<'h>(&self, head: Head<'h>) -> Head<'h> {
        let mut content_type = Vec::with_capacity(64);
        self.content_type.write(&mut content_type);
        self.identify(head).field("Accept-Ranges", b"bytes").field("Content-Type", &content_type)
    }

    /// Fills `buffer` with the bytes from `offset` on.
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
