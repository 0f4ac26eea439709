//! File permissions: a store contains clients' messages, so only its owner may access it.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::path::Path;

/// Files are created with mode 0600.
#[cfg(unix)]
pub(crate) fn owner_only(options: &mut OpenOptions) {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
}

#[cfg(not(unix))]
pub(crate) fn owner_only(_: &mut OpenOptions) {}

/// Creates a directory with mode 0700, and missing parents with the default mode. All of them survive a power cut.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let path = &std::path::absolute(path)?;
    let missing = path.ancestors().take_while(|ancestor| !ancestor.is_dir()).count();
    if let Some(above) = path.parent() {
        std::fs::create_dir_all(above)?;
    }
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(path) {
        // Another process has created it in the meantime.
        Err(_) if path.is_dir() => (),
        result => result?,
    }
    // The name of a new directory is stored in its parent, so the parent has to be synced.
    path.ancestors().skip(1).take(missing).try_for_each(sync)
}

/// Flushes the names in a directory to the disk.
#[cfg(unix)]
pub(crate) fn sync(directory: &Path) -> io::Result<()> {
    std::fs::File::open(directory)?.sync_all()
}

#[cfg(not(unix))]
pub(crate) fn sync(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Removes the permissions of others from the store's files, which older versions created with the default
/// mode. Returns warnings for the owner.
#[cfg(unix)]
pub(crate) fn restrict_permissions(path: &Path) -> io::Result<Vec<String>> {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    let mut warnings = Vec::new();
    let mode = std::fs::metadata(path)?.permissions().mode() & 0o777;
    if mode & 0o022 != 0 {
        warnings.push(format!(
            "{}: other users can write to this directory (mode {mode:04o}) and delete or replace files: change the \
             mode to 0700",
            path.display()
        ));
    }
    let mut restricted = 0;
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| crate::directory::names::is_own(name)) else {
            continue;
        };
        let mode = entry.metadata()?.permissions().mode() & 0o777;
        if mode & 0o077 == 0 {
            continue;
        }
        match set_permissions(entry.path(), Permissions::from_mode(0o600)) {
            Ok(()) => restricted += 1,
            Err(error) => warnings.push(format!(
                "{}: other users can read this file (mode {mode:04o}), and the mode cannot be changed: {error}",
                path.join(name).display()
            )),
        }
    }
    if restricted > 0 {
        warnings.push(format!(
            "{}: other users could read {restricted} files; changed their mode to 0600",
            path.display()
        ));
    }
    Ok(warnings)
}

#[cfg(not(unix))]
pub(crate) fn restrict_permissions(_: &Path) -> io::Result<Vec<String>> {
    Ok(Vec::new())
}
