//! Opening, reading, writing and syncing files.
//!
//! # Safety
//! A read writes to the spare capacity of a vector that no other code can access while the read is in flight. The
//! length is then increased by as many bytes as the kernel has written. Both this process and the kernel only read the
//! bytes of a write.

use std::ffi::CString;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::Arc;

use io_uring::{opcode, squeue, types};

use crate::files::file::Descriptor;
use crate::files::read::{check_range, reserve};
use crate::files::resolve_beneath;
use crate::user_bytes::UserBytes;
use crate::{File, OpenHow, Token};

/// The kernel's maximum size of a read (`MAX_RW_COUNT`).
const MAX_BYTES: usize = 0x7fff_f000;

/// A file that is being opened.
pub(crate) struct Opening {
    pub(crate) token: Token,
    directory: Arc<Descriptor>,
    path: CString,
    how: Box<types::OpenHow>,
}

impl Opening {
    /// # Errors
    /// `EBADF` for a simulated directory.
    pub(crate) fn new(
        token: Token,
        directory: &File,
        path: CString,
        how: OpenHow,
    ) -> io::Result<Opening> {
        let directory = directory.shared_fd()?;
        let (flags, mode) = resolve_beneath::flags(how);
        let how = types::OpenHow::new()
            .flags(u64::from(flags.bits()))
            .mode(mode.bits().into())
            .resolve(resolve_beneath::resolve(how).bits());
        Ok(Opening { token, directory, path, how: Box::new(how) })
    }

    pub(crate) fn submission(&self) -> squeue::Entry {
        let directory = types::Fd(self.directory.as_raw_fd());
        opcode::OpenAt2::new(directory, self.path.as_ptr(), ptr::from_ref(&*self.how)).build()
    }
}

/// A file that is being read.
pub(crate) struct Reading {
    pub(crate) token: Token,
    file: Arc<Descriptor>,
    buffer: Vec<u8>,
    offset: u64,
    length: usize,
}

impl Reading {
    /// # Errors
    /// `ESPIPE` for a pipe. `ENOMEM` if there is no memory for `length` bytes. `EINVAL` for a range that ends beyond 2⁶³
    /// bytes; an offset of -1 would have another meaning for the kernel.
    pub(crate) fn new(
        token: Token,
        file: &File,
        mut buffer: Vec<u8>,
        offset: u64,
        length: usize,
    ) -> io::Result<Reading> {
        check_range(offset, length)?;
        let file = file.shared_fd()?;
        if length > 0 {
            file.check_offsets()?;
        }
        reserve(&mut buffer, length)?;
        Ok(Reading { token, file, buffer, offset, length })
    }

    /// The submission that reads the rest.
    pub(crate) fn submission(&mut self) -> squeue::Entry {
        let rest = self.buffer.spare_capacity_mut();
        let start = rest.as_mut_ptr().cast();
        let length = (self.length - self.buffer.len()).min(MAX_BYTES) as u32;
        let offset = self.offset + self.buffer.len() as u64;
        opcode::Read::new(types::Fd(self.file.as_raw_fd()), start, length).offset(offset).build()
    }

    /// Adds `read` bytes. Returns true if the read is complete.
    pub(crate) fn advance(&mut self, read: u32) -> bool {
        let filled = self.buffer.len() + read as usize;
        assert!(filled <= self.length);
        // SAFETY: the kernel has written `read` bytes after the old length, within the capacity that `new`
        // reserved.
        unsafe { self.buffer.set_len(filled) };
        read == 0 || filled == self.length
    }

    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }
}

/// A file that is being written.
pub(crate) struct Writing {
    pub(crate) token: Token,
    file: Arc<Descriptor>,
    bytes: UserBytes,
    offset: u64,
    written: usize,
}

impl Writing {
    /// # Errors
    /// `ESPIPE` for a pipe. `EINVAL` for a range that ends beyond 2⁶³ bytes; an offset of -1 would have another meaning
    /// for the kernel.
    pub(crate) fn new(
        token: Token,
        file: &File,
        bytes: UserBytes,
        offset: u64,
    ) -> io::Result<Writing> {
        check_range(offset, bytes.len())?;
        let file = file.shared_fd()?;
        if !bytes.is_empty() {
            file.check_offsets()?;
        }
        Ok(Writing { token, file, bytes, offset, written: 0 })
    }

    /// The submission that writes the rest.
    pub(crate) fn submission(&self) -> squeue::Entry {
        let rest = &self.bytes[self.written..];
        let length = rest.len().min(MAX_BYTES) as u32;
        let offset = self.offset + self.written as u64;
        let file = types::Fd(self.file.as_raw_fd());
        opcode::Write::new(file, rest.as_ptr(), length).offset(offset).build()
    }

    /// Adds `written` bytes. Returns true if the write is complete.
    pub(crate) fn advance(&mut self, written: u32) -> bool {
        self.written += written as usize;
        assert!(self.written <= self.bytes.len());
        self.written == self.bytes.len()
    }
}

/// A file that is being flushed to the disk.
pub(crate) struct Syncing {
    pub(crate) token: Token,
    file: Arc<Descriptor>,
    data_only: bool,
}

impl Syncing {
    /// # Errors
    /// `EBADF` for a simulated file.
    pub(crate) fn new(token: Token, file: &File, data_only: bool) -> io::Result<Syncing> {
        Ok(Syncing { token, file: file.shared_fd()?, data_only })
    }

    pub(crate) fn submission(&self) -> squeue::Entry {
        let flags =
            if self.data_only { types::FsyncFlags::DATASYNC } else { types::FsyncFlags::empty() };
        opcode::Fsync::new(types::Fd(self.file.as_raw_fd())).flags(flags).build()
    }
}
