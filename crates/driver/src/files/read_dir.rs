//! Reading the entries of a directory. Unlike other calls of this crate, it may wait for a disk, because no kernel
//! interface reads a directory without waiting. Call it only on threads that may block.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, Dir, FileType, statat};
use rustix::io::Errno;

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name: bytes without a slash, not necessarily UTF-8.
    pub name: Vec<u8>,
    /// The type of the entry.
    pub kind: DirEntryKind,
    /// The length in bytes; meaningful for regular files only.
    pub length: u64,
    /// The time of the last change of the content, in nanoseconds since 1970. For a link, the time of the link itself.
    pub modified_ns: i128,
}

/// The type of a directory entry. Links are not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirEntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, whatever its target.
    Link,
    /// A pipe, socket or device.
    Other,
}

/// Entries of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirEntries {
    /// The entries, unsorted.
    pub entries: Vec<DirEntry>,
    /// Whether there are more entries than requested.
    pub truncated: bool,
}

#[allow(clippy::unnecessary_cast, reason = "the fields' types differ between systems")]
pub(crate) fn read_dir(
    directory: BorrowedFd<'_>,
    limit: usize,
    filter: &dyn Fn(&[u8]) -> bool,
) -> io::Result<DirEntries> {
    let mut entries = DirEntries::default();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") || !filter(name) {
            continue;
        }
        if entries.entries.len() == limit {
            entries.truncated = true;
            break;
        }
        let stat = match statat(directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            // The entry has been removed in the meantime.
            Err(Errno::NOENT) => continue,
            Err(error) => return Err(error.into()),
        };
        let kind = match FileType::from_raw_mode(stat.st_mode as _) {
            FileType::RegularFile => DirEntryKind::File,
            FileType::Directory => DirEntryKind::Directory,
            FileType::Symlink => DirEntryKind::Link,
            _ => DirEntryKind::Other,
        };
        let modified_ns =
            i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec);
        let length = stat.st_size as u64;
        entries.entries.push(DirEntry { name: name.to_vec(), kind, length, modified_ns });
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn entries_are_read_without_following_links() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("file"), "12345").unwrap();
        std::fs::write(root.path().join(".hidden"), "").unwrap();
        std::fs::create_dir(root.path().join("sub")).unwrap();
        std::os::unix::fs::symlink("/etc", root.path().join("link")).unwrap();
        let directory = std::fs::File::open(root.path()).unwrap();
        let is_visible = |name: &[u8]| !name.starts_with(b".");
        for _ in 0..2 {
            let DirEntries { entries, truncated } =
                read_dir(directory.as_fd(), 3, &is_visible).unwrap();
            let kinds: BTreeMap<_, _> =
                entries.iter().map(|named| (&named.name[..], named.kind)).collect();
            let wanted: [(&[u8], _); 3] = [
                (b"file", DirEntryKind::File),
                (b"link", DirEntryKind::Link),
                (b"sub", DirEntryKind::Directory),
            ];
            assert_eq!(kinds, wanted.into());
            assert!(!truncated, "exactly as many as there are");
            assert_eq!(entries.iter().find(|named| named.name == b"file").unwrap().length, 5);
        }
        let entries = read_dir(directory.as_fd(), 2, &is_visible).unwrap();
        assert_eq!((entries.entries.len(), entries.truncated), (2, true));
    }
}
