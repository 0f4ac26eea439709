//! The end of a node that lost its sessions, and its next start: with an empty journal.

use std::fs;
use std::io;
use std::path::Path;

/// The file that says that the journal is another node's now.
const MARK: &str = "adopted";

/// The directory of the journal that another node has adopted, for operators.
const OLD: &str = "adopted-journal";

/// Marks the persistence directory: the next start does not use its journal. May block.
///
/// # Errors
/// Those of the file system.
pub(crate) fn mark(path: &Path, why: &str) -> io::Result<()> {
    fs::write(path.join(MARK), format!("{why}\n"))?;
    fs::File::open(path)?.sync_all()
}

/// Moves the journal of a marked directory aside, in place of an earlier one. Returns whether it was marked. May block.
///
/// # Errors
/// Those of the file system. The mark remains.
pub(crate) fn set_aside(path: &Path) -> io::Result<bool> {
    let mark = path.join(MARK);
    if !mark.exists() {
        return Ok(false);
    }
    let old = path.join(OLD);
    match fs::create_dir(&old) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => (),
        created => created?,
    }
    for file in fs::read_dir(&old)? {
        fs::remove_file(file?.path())?;
    }
    for file in fs::read_dir(path)? {
        let file = file?;
        let name = file.file_name();
        if name.to_str().is_some_and(phalanx_store::is_journal_file) {
            fs::rename(file.path(), old.join(&name))?;
        }
    }
    fs::File::open(path)?.sync_all()?;
    fs::remove_file(mark)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marked_journal_is_set_aside() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path();
        let journal = "000000000001.journal";
        for contents in ["first", "second"] {
            fs::write(path.join(journal), contents).unwrap();
            fs::write(path.join("other"), "stays").unwrap();
            assert!(!set_aside(path).unwrap() && path.join(journal).exists());
            mark(path, "test").unwrap();
            assert!(set_aside(path).unwrap() && !path.join(journal).exists());
            assert_eq!(fs::read_to_string(path.join(OLD).join(journal)).unwrap(), contents);
            assert!(path.join("other").exists() && !set_aside(path).unwrap());
        }
    }
}
