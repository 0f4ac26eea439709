//! Sets aside the journal of a node that has lost its sessions, so that its next start has an empty one.

use std::fs;
use std::io;
use std::path::Path;

/// The file that marks the journal as adopted by another node.
const MARK_FILE: &str = "adopted";

/// The directory that keeps the adopted journal for operators, and its name until the move is complete.
const ADOPTED_DIRECTORY: &str = "adopted-journal";
const MOVING_DIRECTORY: &str = "adopted-journal.new";

/// Marks the persistence directory, so that the next start does not use its journal. May block.
///
/// # Errors
/// Those of the file system.
pub(crate) fn mark(path: &Path, reason: &str) -> io::Result<()> {
    fs::write(path.join(MARK_FILE), format!("{reason}\n"))?;
    sync(path)
}

/// If the directory is marked, moves its journal aside, replacing an earlier one. Returns whether it was marked. May
/// block.
///
/// # Errors
/// Errors of the file system. The mark remains, and the next call continues.
pub(crate) fn set_aside(path: &Path) -> io::Result<bool> {
    let mark = path.join(MARK_FILE);
    if !mark.exists() {
        return Ok(false);
    }
    let (old, moving) = (path.join(ADOPTED_DIRECTORY), path.join(MOVING_DIRECTORY));
    let journal: Vec<_> = fs::read_dir(path)?
        .filter(|file| file.as_ref().map_or(true, is_of_journal))
        .collect::<Result<_, _>>()?;
    // Otherwise an earlier call has moved everything.
    if !journal.is_empty() || moving.exists() {
        fs::create_dir_all(&moving)?;
        for file in journal {
            fs::rename(file.path(), moving.join(file.file_name()))?;
        }
        sync(&moving)?;
        sync(path)?;
        if old.exists() {
            fs::remove_dir_all(&old)?;
        }
        fs::rename(&moving, &old)?;
        sync(path)?;
    }
    fs::remove_file(mark)?;
    Ok(true)
}

fn is_of_journal(file: &fs::DirEntry) -> bool {
    file.file_name().to_str().is_some_and(phalanx_store::is_journal_file)
}

fn sync(directory: &Path) -> io::Result<()> {
    fs::File::open(directory)?.sync_all()
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
            assert_eq!(
                fs::read_to_string(path.join(ADOPTED_DIRECTORY).join(journal)).unwrap(),
                contents
            );
            assert!(path.join("other").exists() && !set_aside(path).unwrap());
        }
    }

    #[test]
    fn a_journal_that_was_moved_in_part_is_kept() {
        let home = tempfile::tempdir().unwrap();
        let (path, all) = (home.path(), ["000000000001.journal", "000000000002.journal"]);
        let old =
            || all.map(|name| fs::read_to_string(path.join(ADOPTED_DIRECTORY).join(name)).unwrap());
        // A crash after the first file was moved.
        fs::create_dir(path.join(MOVING_DIRECTORY)).unwrap();
        fs::write(path.join(MOVING_DIRECTORY).join(all[0]), all[0]).unwrap();
        fs::write(path.join(all[1]), all[1]).unwrap();
        mark(path, "test").unwrap();
        assert!(set_aside(path).unwrap());
        assert_eq!(old(), all);
        // A crash before the mark was removed.
        mark(path, "test").unwrap();
        assert!(set_aside(path).unwrap());
        assert_eq!(old(), all);
    }
}
