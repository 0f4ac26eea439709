//! Distributing the datagrams of QUIC among the sockets of a group.
//!
//! # Safety
//! The only call is a `setsockopt` with a program that lives until the call returns; the kernel copies it.

use std::io;
use std::os::fd::BorrowedFd;

/// Passes each datagram that arrives for a group of sockets (`SO_REUSEPORT`) to the one whose number is the first two
/// bytes of the destination connection identifier (RFC 8999), modulo the number of `sockets`. Sockets have the order in
/// which they were bound. `socket` is any of them. Shorter datagrams go to the first.
///
/// # Errors
/// As `setsockopt(2)`.
#[cfg(target_os = "linux")]
pub fn steer_by_connection_id(socket: BorrowedFd<'_>, sockets: u16) -> io::Result<()> {
    use std::mem::size_of_val;
    use std::os::fd::AsRawFd;

    use libc::{
        BPF_A, BPF_ABS, BPF_ALU, BPF_B, BPF_H, BPF_JA, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_MOD,
        BPF_RET, sock_filter, sock_fprog,
    };

    /// Set in the first byte of packets with a long header, whose identifier follows version and length.
    const LONG: u32 = 0x80;
    const LONG_IDENTIFIER: u32 = 6;
    const SHORT_IDENTIFIER: u32 = 1;

    let step = |code: u32, jt, jf, k| sock_filter { code: code as u16, jt, jf, k };
    let mut steps = [
        step(BPF_LD | BPF_B | BPF_ABS, 0, 0, 0),
        step(BPF_JMP | BPF_JSET | BPF_K, 0, 2, LONG),
        step(BPF_LD | BPF_H | BPF_ABS, 0, 0, LONG_IDENTIFIER),
        step(BPF_JMP | BPF_JA, 0, 0, 1),
        step(BPF_LD | BPF_H | BPF_ABS, 0, 0, SHORT_IDENTIFIER),
        step(BPF_ALU | BPF_MOD | BPF_K, 0, 0, sockets.max(1).into()),
        step(BPF_RET | BPF_A, 0, 0, 0),
    ];
    let program = sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the kernel reads a program of this length, whose steps are alive, and keeps a copy.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast(),
            size_of_val(&program) as libc::socklen_t,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Not available.
///
/// # Errors
/// `Unsupported`.
#[cfg(not(target_os = "linux"))]
pub fn steer_by_connection_id(_: BorrowedFd<'_>, _: u16) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
