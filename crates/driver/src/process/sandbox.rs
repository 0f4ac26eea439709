//! System call filters for tests, as sandboxes have them.
//!
//! # Safety
//! The filter and its instructions are alive during the call that passes them to the kernel, which copies them.

use std::io;

/// Makes a system call fail with `error` on this thread.
pub(crate) fn refuse(call: libc::c_long, error: i32) {
    refuse_if(call, None, error);
}

/// Makes a system call fail with `error` on this thread if its first argument is larger than `limit`.
pub(crate) fn refuse_above(call: libc::c_long, limit: u32, error: i32) {
    refuse_if(call, Some(limit), error);
}

fn refuse_if(call: libc::c_long, limit: Option<u32>, error: i32) {
    use libc::{BPF_ABS, BPF_JEQ, BPF_JGT, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W};

    /// The lower half of the first argument, which is at offset 16.
    const FIRST_ARGUMENT: u32 = if cfg!(target_endian = "little") { 16 } else { 20 };

    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let test = match limit {
        Some(limit) => step(BPF_JMP | BPF_JGT | BPF_K, 0, 1, limit),
        None => step(BPF_JMP | BPF_K, 0, 0, 0),
    };
    // The number of the call is at offset 0.
    let mut steps = [
        step(BPF_LD | BPF_W | BPF_ABS, 0, 0, 0),
        step(BPF_JMP | BPF_JEQ | BPF_K, 0, 3, call as u32),
        step(BPF_LD | BPF_W | BPF_ABS, 0, 0, FIRST_ARGUMENT),
        test,
        step(BPF_RET | BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | error as u32),
        step(BPF_RET | BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    rustix::thread::set_no_new_privs(true).unwrap();
    // SAFETY: see the top of the file.
    let refused =
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    assert_eq!(refused, 0, "{}", io::Error::last_os_error());
}
