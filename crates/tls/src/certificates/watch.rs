//! Detection of changed files.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use crate::certificates::certificate::CertificateError;

/// Modification time and length of a file, which show whether it has changed.
pub(crate) type Stamp = Option<(SystemTime, u64)>;

pub(crate) fn stamp(path: &Path) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// The state of two files at the last attempt to load them.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileWatch {
    /// Stamps of the contents that were last read.
    stamps: [Stamp; 2],
    /// The error reported since then, if the files could not be read.
    unread: Option<String>,
}

impl FileWatch {
    /// The state of files that were read and have these stamps.
    pub(crate) fn read(stamps: [Stamp; 2]) -> Self {
        Self { stamps, unread: None }
    }

    /// Whether the files, which now have these stamps, must be loaded.
    pub(crate) fn has_changed(&mut self, stamps: [Stamp; 2]) -> bool {
        let has_changed = stamps != self.stamps;
        if !has_changed {
            self.unread = None;
        }
        has_changed
    }

    /// Records that files with these stamps are unusable. They are loaded again after the next change. If they could
    /// not be read, they are loaded at the next check, because a change of permissions or a free descriptor does not
    /// change the stamps. Returns whether the error is a new one.
    pub(crate) fn failed(&mut self, stamps: [Stamp; 2], error: &CertificateError) -> bool {
        if !matches!(error, CertificateError::Read { .. }) {
            *self = Self::read(stamps);
            return true;
        }
        let error = error.to_string();
        let is_new = self.unread.as_ref() != Some(&error);
        self.unread = Some(error);
        is_new
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn files_that_cannot_be_read_have_changed_until_they_are_read() {
        let stamps = [1, 2].map(|length| Some((SystemTime::UNIX_EPOCH, length)));
        let mut watch = FileWatch::default();
        let source = io::ErrorKind::PermissionDenied.into();
        let error = CertificateError::Read { path: "a.pem".into(), source };
        assert!(watch.failed(stamps, &error) && watch.has_changed(stamps));
        assert!(!watch.failed(stamps, &error) && watch.has_changed(stamps));
        assert!(!FileWatch::read(stamps).has_changed(stamps));
        let error = CertificateError::NoCertificate { path: "a.pem".into() };
        assert!(watch.failed(stamps, &error) && !watch.has_changed(stamps));
    }
}
