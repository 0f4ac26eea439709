//! Tests of opening files in a sandbox that refuses the system calls that it does not know.
//!
//! # Safety
//! The filter and its instructions are alive during the call that passes them to the kernel, which copies them.

use std::ffi::CStr;
use std::fs::{create_dir_all, read_link, write};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use std::thread;

use crate::files::resolve_beneath::open;
use crate::{Access, Links, OpenHow};

/// Makes a system call fail with `EPERM` on this thread.
fn refuse(call: libc::c_long) {
    use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W};

    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    // The number of the call is at offset 0.
    let mut steps = [
        step(BPF_LD | BPF_W | BPF_ABS, 0, 0, 0),
        step(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, call as u32),
        step(BPF_RET | BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(BPF_RET | BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    rustix::thread::set_no_new_privs(true).unwrap();
    // SAFETY: see the top of the file.
    let refused =
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    assert_eq!(refused, 0, "{}", io::Error::last_os_error());
}

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
        let how = OpenHow { links: Links::Followed, access: Access::Read };
        let fd = open(directory.as_fd(), path, how).map_err(|error| error.raw_os_error())?;
        let name = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd));
        Ok(read_link(name).unwrap())
    };
    thread::scope(|scope| {
        let sandboxed = scope.spawn(|| {
            refuse(libc::SYS_openat2);
            assert_eq!(opened(c"link/file"), Ok(root.join("sub/file")));
            assert_eq!(opened(c"out"), Err(Some(libc::EXDEV)));
            assert_eq!(opened(c"none"), Err(Some(libc::ENOENT)));
        });
        sandboxed.join().unwrap();
    });
}
