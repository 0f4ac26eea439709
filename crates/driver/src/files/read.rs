//! Reading a range of a file by calls that may block.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::io::{Errno, pread};

/// The maximum number of bytes in one `pread`.
const READ_STEP: usize = 256 << 10;

/// Checks a range of a file: the kernel's offsets are signed, and -1 means the file's current position.
///
/// # Errors
/// `EINVAL` if the range ends beyond 2⁶³ bytes.
pub(crate) fn check_range(offset: u64, length: usize) -> io::Result<()> {
    match offset.checked_add(length as u64) {
        Some(end) if end <= i64::MAX as u64 => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::EINVAL)),
    }
}

/// Clears `buffer`, and reserves `length` bytes.
///
/// # Errors
/// `ENOMEM` if there is no memory for them.
pub(crate) fn reserve(buffer: &mut Vec<u8>, length: usize) -> io::Result<()> {
    buffer.clear();
    buffer.try_reserve_exact(length).map_err(|_| io::Error::from_raw_os_error(libc::ENOMEM))
}

/// Reads up to `length` bytes from `offset` into the memory of `buffer`; fewer only at the end of the file.
///
/// # Errors
/// The errors of [`check_range`], [`reserve`] and `pread(2)`.
pub(crate) fn read(
    file: BorrowedFd<'_>,
    mut buffer: Vec<u8>,
    offset: u64,
    length: usize,
) -> io::Result<Vec<u8>> {
    check_range(offset, length)?;
    reserve(&mut buffer, length)?;
    let mut filled = 0;
    while filled < length {
        // Read in steps, so that a buffer much longer than the file is not zeroed as a whole.
        buffer.resize(length.min(filled + READ_STEP), 0);
        match pread(file, &mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    buffer.truncate(filled);
    Ok(buffer)
}
