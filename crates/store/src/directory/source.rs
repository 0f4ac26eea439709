//! Sources of segments for recovery.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::directory::names::segment_name;
use crate::directory::private;

/// A set of named files to recover from.
///
/// Implemented by a directory, and by a map from names to contents for simulated power failures.
pub trait Source: Sync {
    /// The names of all files.
    ///
    /// # Errors
    /// If the names cannot be listed.
    fn names(&self) -> io::Result<Vec<String>>;

    /// Reads the first `limit` bytes of a file, or all of it if it is shorter.
    ///
    /// # Errors
    /// If the file cannot be read.
    fn read(&self, name: &str, limit: u64) -> io::Result<Vec<u8>>;

    /// Rewrites bytes of a file as they were read at this offset, so that they and the file's name survive a power cut.
    /// The default does nothing, which suits sources whose files always survive.
    ///
    /// # Errors
    /// If they cannot be written or synced.
    fn write_again(&self, name: &str, at: u64, bytes: &[u8]) -> io::Result<()> {
        let _ = (name, at, bytes);
        Ok(())
    }
}

/// A directory of the file system.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Source for Directory {
    fn names(&self) -> io::Result<Vec<String>> {
        let names = std::fs::read_dir(&self.0)?.map(|entry| Ok(entry?.file_name().into_string()));
        // Names that are not UTF-8 belong to other programs.
        names
            .filter_map(|name: io::Result<Result<String, _>>| name.map(Result::ok).transpose())
            .collect()
    }

    fn read(&self, name: &str, limit: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(self.0.join(name))?.take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn write_again(&self, name: &str, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut file = File::options().write(true).open(self.0.join(name))?;
        file.seek(SeekFrom::Start(at))?;
        match file.write_all(bytes) {
            // The file system has no room because it does not overwrite in place. The bytes are in the page cache.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => (),
            written => written?,
        }
        file.sync_data()?;
        private::sync(&self.0)
    }
}

impl Source for BTreeMap<String, Vec<u8>> {
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.keys().cloned().collect())
    }

    fn read(&self, name: &str, limit: u64) -> io::Result<Vec<u8>> {
        let bytes = self.get(name).ok_or(io::ErrorKind::NotFound)?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Ok(bytes[..bytes.len().min(limit)].to_vec())
    }
}

/// Deletes a segment. A failure is ignored; the file is deleted at the next start.
pub(crate) fn remove(directory: &Path, number: u64) {
    let _ = std::fs::remove_file(directory.join(segment_name(number)));
}
