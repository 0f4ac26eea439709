//! The files of Unix sockets, which are removed when their listeners close.

use std::collections::HashMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::{Arc, Mutex, PoisonError};

use phalanx::runtime::report;

use crate::address::UnixAddress;

/// The files of the bound Unix sockets, by the numbers of their listeners. Dropping any guard removes all files, so
/// there is one guard that lives as long as the server.
#[derive(Clone, Default)]
pub(super) struct UnixFiles(Arc<Mutex<HashMap<u64, UnixFile>>>);

/// Removes the files of all Unix sockets when it is dropped.
#[must_use = "the files are removed when it is dropped"]
pub struct UnixFilesGuard(UnixFiles);

impl Drop for UnixFilesGuard {
    fn drop(&mut self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl UnixFiles {
    pub(super) fn guard(&self) -> UnixFilesGuard {
        UnixFilesGuard(self.clone())
    }

    pub(super) fn insert(&self, id: u64, file: UnixFile) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id, file);
    }

    pub(super) fn remove(&self, id: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }
}

/// The file of a bound socket.
pub(super) struct UnixFile {
    address: UnixAddress,
    /// Device and inode.
    inode: (u64, u64),
}

impl UnixFile {
    /// The file that a socket has just been bound to.
    pub(super) fn new(address: UnixAddress) -> io::Result<Self> {
        Ok(Self { address, inode: inode(address)? })
    }
}

impl Drop for UnixFile {
    fn drop(&mut self) {
        // Another server may have replaced the file.
        if inode(self.address).is_ok_and(|inode| inode == self.inode) {
            let _ = fs::remove_file(self.address.path());
        }
    }
}

fn inode(address: UnixAddress) -> io::Result<(u64, u64)> {
    let file = address.path().symlink_metadata()?;
    Ok((file.dev(), file.ino()))
}

/// Gives the file of a bound socket another mode.
pub(super) fn set_mode(address: UnixAddress) {
    let permissions = Permissions::from_mode(address.mode());
    if let Err(error) = fs::set_permissions(address.path(), permissions) {
        report(format_args!("cannot change the mode of {}: {error}", address.path().display()));
    }
}
