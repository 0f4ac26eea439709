//! Tests of opening files in a sandbox that refuses the system calls that it does not know.

use std::ffi::CStr;
use std::fs::{create_dir_all, read_link, write};
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use std::thread;

use crate::files::resolve_beneath::open;
use crate::process::sandbox::refuse;
use crate::{Access, OpenHow, SymlinkPolicy};

/// Container runtimes of 2020 and earlier refuse `openat2` with `EPERM` instead of `ENOSYS`.
#[test]
#[cfg_attr(miri, ignore = "Miri has no seccomp")]
fn a_refused_openat2_is_replaced() {
    let outside = tempfile::tempdir().unwrap();
    let root = outside.path().join("root");
    create_dir_all(root.join("sub")).unwrap();
    write(root.join("sub/file"), "within").unwrap();
    write(outside.path().join("secret"), "secret").unwrap();
    symlink("sub", root.join("link")).unwrap();
    symlink("../secret", root.join("out")).unwrap();
    let directory = std::fs::File::open(&root).unwrap();
    let opened = |path: &CStr| {
        let how = OpenHow { links: SymlinkPolicy::Follow, access: Access::Read };
        let fd = open(directory.as_fd(), path, how).map_err(|error| error.raw_os_error())?;
        let name = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd));
        Ok(read_link(name).unwrap())
    };
    thread::scope(|scope| {
        let sandboxed = scope.spawn(|| {
            refuse(libc::SYS_openat2, libc::EPERM);
            assert_eq!(opened(c"link/file"), Ok(root.join("sub/file")));
            assert_eq!(opened(c"out"), Err(Some(libc::EXDEV)));
            assert_eq!(opened(c"none"), Err(Some(libc::ENOENT)));
        });
        sandboxed.join().unwrap();
    });
}
