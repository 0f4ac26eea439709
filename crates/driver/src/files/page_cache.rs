//! Access to the page cache by calls that never wait for a disk.

use std::ffi::CStr;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::OpenHow;
use crate::files::file::{FileKind, Metadata, ReadNow};

/// Opens a file without waiting for a disk. Returns `None` if it might have to wait.
#[cfg(target_os = "linux")]
pub(crate) fn open(
    directory: BorrowedFd<'_>,
    path: &CStr,
    how: OpenHow,
) -> Option<io::Result<OwnedFd>> {
    use rustix::fs::ResolveFlags;
    use rustix::io::Errno;
    let resolve =
        crate::files::resolve_beneath::resolve(how) | ResolveFlags::from_bits_retain(0x20);
    let (flags, mode) = crate::files::resolve_beneath::flags(how);
    match rustix::fs::openat2(directory, path, flags, mode, resolve) {
        Ok(fd) => Some(Ok(fd)),
        Err(Errno::AGAIN | Errno::INVAL | Errno::NOSYS | Errno::PERM) => None,
        // Reading the link's owner may block.
        Err(Errno::LOOP) if how.links == crate::SymlinkPolicy::OwnerMatches => None,
        Err(error) => Some(Err(error.into())),
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn open(_: BorrowedFd<'_>, _: &CStr, _: OpenHow) -> Option<io::Result<OwnedFd>> {
    None
}

/// Reads bytes from the page cache, without waiting for a disk.
#[cfg(target_os = "linux")]
pub(crate) fn read(file: BorrowedFd<'_>, buffer: &mut [u8], offset: u64) -> io::Result<ReadNow> {
    use rustix::io::{Errno, IoSliceMut, ReadWriteFlags, preadv2};
    let mut bytes = 0;
    while bytes < buffer.len() {
        let rest = &mut [IoSliceMut::new(&mut buffer[bytes..])];
        match preadv2(file, rest, offset + bytes as u64, ReadWriteFlags::NOWAIT) {
            Ok(0) => return Ok(ReadNow { bytes, complete: true }),
            Ok(n) => bytes += n,
            Err(Errno::INTR) => (),
            Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                return Ok(ReadNow { bytes, complete: false });
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(ReadNow { bytes, complete: true })
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn read(_: BorrowedFd<'_>, _: &mut [u8], _: u64) -> io::Result<ReadNow> {
    Ok(ReadNow { bytes: 0, complete: false })
}

/// Time for which the result of a probe is used again. A popular file has many requests in this time, and the kernel
/// keeps pages that were just used for longer.
const PROBE_VALIDITY: Duration = Duration::from_millis(10);

/// The part of a file that was in the page cache when it was last probed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probed {
    from: u64,
    to: u64,
    at: Instant,
}

impl Probed {
    /// The result of a probe of `bytes` bytes from `offset`.
    pub(crate) fn new(offset: u64, bytes: usize, at: Instant) -> Self {
        Self { from: offset, to: offset + bytes as u64, at }
    }

    /// Whether these bytes are part of it, and the probe is recent.
    pub(crate) fn covers(&self, offset: u64, bytes: usize, now: Instant) -> bool {
        self.from <= offset
            && offset + bytes as u64 <= self.to
            && now.saturating_duration_since(self.at) < PROBE_VALIDITY
    }
}

/// Distance between two probes, in bytes. Larger than a page, because the kernel reads ahead and reclaims
/// several pages at a time.
#[cfg(target_os = "linux")]
const PROBE_INTERVAL: u64 = 64 << 10;

/// The smallest page size of any system.
#[cfg(target_os = "linux")]
const MIN_PAGE: u64 = 4096;

/// Returns the number of bytes, of `length` bytes from `offset`, that can be read without waiting for a disk. Probes
/// only some pages, so the result may be too large while the kernel reclaims the file's pages. Returns zero at the end
/// of the file, and on systems where the kernel does not report residency.
///
/// # Errors
/// The errors of `read(2)`.
#[cfg(target_os = "linux")]
pub(crate) fn resident(
    file: BorrowedFd<'_>,
    offset: u64,
    length: usize,
    calls: &mut u64,
) -> io::Result<usize> {
    let end = offset + length as u64;
    let (mut known, mut at) = (offset, offset);
    while known < end {
        *calls += 1;
        let probe = read(file, &mut [0], at)?;
        if probe.bytes == 0 {
            // At the end of the file, the send itself will detect the end.
            known = if probe.complete { at } else { known };
            break;
        }
        known = if at + 1 >= end { end } else { (at / MIN_PAGE + 1) * MIN_PAGE };
        at = (at + PROBE_INTERVAL).min(end - 1);
    }
    Ok((known.min(end) - offset) as usize)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn resident(_: BorrowedFd<'_>, _: u64, _: usize, _: &mut u64) -> io::Result<usize> {
    Ok(0)
}

#[allow(clippy::unnecessary_cast, reason = "the fields' types differ between systems")]
pub(crate) fn metadata(file: BorrowedFd<'_>) -> io::Result<Metadata> {
    let stat = rustix::fs::fstat(file)?;
    let kind = match rustix::fs::FileType::from_raw_mode(stat.st_mode as _) {
        rustix::fs::FileType::RegularFile => FileKind::File,
        rustix::fs::FileType::Directory => FileKind::Directory,
        _ => FileKind::Other,
    };
    let at = |seconds, nanos| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    Ok(Metadata {
        kind,
        length: stat.st_size as u64,
        modified_ns: at(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
        changed_ns: at(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        inode: stat.st_ino as u64,
        device: stat.st_dev as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_used_again_for_a_short_time() {
        let at = Instant::now();
        let probed = Probed::new(100, 50, at);
        for (offset, bytes, covered) in
            [(100, 50, true), (120, 30, true), (99, 2, false), (100, 51, false), (150, 1, false)]
        {
            assert_eq!(probed.covers(offset, bytes, at), covered, "{offset} {bytes}");
        }
        assert!(probed.covers(100, 50, at + PROBE_VALIDITY / 2));
        assert!(!probed.covers(100, 50, at + PROBE_VALIDITY));
    }
}
