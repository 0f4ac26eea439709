//! BPF programs that select a socket of a group within the kernel.
//!
//! Sockets that are bound to one address (`SO_REUSEPORT`) form a group. The kernel selects one for a new connection, or
//! for a datagram, by a hash of the addresses, unless the group has a program (classic BPF), which returns the number
//! of a socket. If no socket has that number, the kernel uses the hash.
//!
//! # Safety
//! Each call is a `setsockopt` with a value that is alive and has the length that is passed with it. The kernel copies
//! a program before the call returns, and its instructions are alive until then.

use std::io;
use std::num::NonZero;
use std::os::fd::BorrowedFd;

/// Makes the kernel pass each datagram for a group of sockets (`SO_REUSEPORT`) to the socket whose number is the first
/// two bytes of the destination connection ID (RFC 8999), modulo the number of `sockets`. The sockets are numbered in
/// the order in which they were bound. `socket` is any of them. Datagrams that are too short go to the first socket.
///
/// The ID of an Initial or 0-RTT packet (RFC 9000 §17.2) may be a random one of the client. Such a packet goes to one of
/// the `first` sockets: a larger number is reduced modulo `first`. So IDs that belong to one of these sockets select it
/// in all packets.
///
/// # Errors
/// The errors of `setsockopt(2)`.
#[cfg(target_os = "linux")]
pub fn steer_by_connection_id(socket: BorrowedFd<'_>, sockets: u16, first: u16) -> io::Result<()> {
    use libc::{
        BPF_A, BPF_ABS, BPF_ALU, BPF_B, BPF_H, BPF_JA, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD,
        BPF_MOD, BPF_RET, sock_filter,
    };

    /// Set in the first byte of packets with a long header, in which the connection ID follows the version and a
    /// length.
    const LONG_HEADER: u32 = 0x80;
    /// Clear in the first byte of Initial and 0-RTT packets, set in those of Handshake and Retry packets.
    const CONTINUES: u32 = 0x20;
    const LONG_IDENTIFIER: u32 = 6;
    const SHORT_IDENTIFIER: u32 = 1;

    let step = |code: u32, jt, jf, k| sock_filter { code: code as u16, jt, jf, k };
    let (sockets, first) = (sockets.max(1).into(), first.max(1).into());
    let mut steps = [
        step(BPF_LD | BPF_B | BPF_ABS, 0, 0, 0),
        step(BPF_JMP | BPF_JSET | BPF_K, 0, 8, LONG_HEADER),
        step(BPF_JMP | BPF_JSET | BPF_K, 5, 0, CONTINUES),
        // A packet that may begin a connection.
        step(BPF_LD | BPF_H | BPF_ABS, 0, 0, LONG_IDENTIFIER),
        step(BPF_ALU | BPF_MOD | BPF_K, 0, 0, sockets),
        step(BPF_JMP | BPF_JGE | BPF_K, 0, 1, first),
        step(BPF_ALU | BPF_MOD | BPF_K, 0, 0, first),
        step(BPF_RET | BPF_A, 0, 0, 0),
        // Another packet with a long header.
        step(BPF_LD | BPF_H | BPF_ABS, 0, 0, LONG_IDENTIFIER),
        step(BPF_JMP | BPF_JA, 0, 0, 1),
        // A packet with a short header.
        step(BPF_LD | BPF_H | BPF_ABS, 0, 0, SHORT_IDENTIFIER),
        step(BPF_ALU | BPF_MOD | BPF_K, 0, 0, sockets),
        step(BPF_RET | BPF_A, 0, 0, 0),
    ];
    attach(socket, &mut steps)
}

/// Not available.
///
/// # Errors
/// `Unsupported`.
#[cfg(not(target_os = "linux"))]
pub fn steer_by_connection_id(_: BorrowedFd<'_>, _: u16, _: u16) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Distributes new connections only among the `first` listeners of the group of `fd`, in the order in which they began
/// to listen. With `None`, the kernel distributes them among all listeners by its hash. Listeners of other processes in
/// the group count as well.
///
/// # Errors
/// The errors of `setsockopt(2)`, such as `EINVAL` if the listener is not in a group, or `ENOENT` if there is no
/// program to remove.
#[cfg(target_os = "linux")]
pub(crate) fn steer(fd: BorrowedFd<'_>, first: Option<NonZero<u32>>) -> io::Result<()> {
    use libc::{
        BPF_A, BPF_ABS, BPF_ALU, BPF_K, BPF_LD, BPF_MOD, BPF_RET, BPF_W, SKF_AD_OFF, SKF_AD_RANDOM,
        SO_DETACH_REUSEPORT_BPF, c_int, sock_filter,
    };

    /// The address of the kernel's random number.
    const RANDOM: u32 = (SKF_AD_OFF + SKF_AD_RANDOM) as u32;

    let Some(first) = first else {
        // The kernel reads an integer for every option, and ignores this one.
        return set(fd, SO_DETACH_REUSEPORT_BPF, &(0 as c_int));
    };
    let step = |code: u32, k| sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let mut steps = [
        step(BPF_LD | BPF_W | BPF_ABS, RANDOM),
        step(BPF_ALU | BPF_MOD | BPF_K, first.get()),
        step(BPF_RET | BPF_A, 0),
    ];
    attach(fd, &mut steps)
}

#[cfg(target_os = "linux")]
fn attach(fd: BorrowedFd<'_>, steps: &mut [libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    set(fd, libc::SO_ATTACH_REUSEPORT_CBPF, &program)
}

#[cfg(target_os = "linux")]
fn set<T>(fd: BorrowedFd<'_>, option: libc::c_int, value: &T) -> io::Result<()> {
    use std::mem::size_of;
    use std::os::fd::AsRawFd;

    // SAFETY: `value` is alive and has this length. A program in it points to steps that are alive in the caller.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Not available.
///
/// # Errors
/// `Unsupported`.
#[cfg(not(target_os = "linux"))]
pub(crate) fn steer(_: BorrowedFd<'_>, _: Option<NonZero<u32>>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use socket2::{Domain, Socket, Type};

    use super::*;

    fn group(size: usize) -> Vec<TcpListener> {
        let mut address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listen = |_| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.set_reuse_port(true).unwrap();
            socket.bind(&address.into()).unwrap();
            socket.listen(128).unwrap();
            let listener = TcpListener::from(socket);
            address = listener.local_addr().unwrap();
            listener
        };
        (0..size).map(listen).collect()
    }

    /// The listeners that get some of 64 connections.
    fn receivers(group: &[TcpListener]) -> Vec<usize> {
        let address = group[0].local_addr().unwrap();
        let clients: Vec<_> = (0..64).map(|_| TcpStream::connect(address).unwrap()).collect();
        let mut seen = vec![0; group.len()];
        for _ in &clients {
            let mut ready: Vec<_> =
                group.iter().map(|one| PollFd::new(one, PollFlags::IN)).collect();
            let limit = Timespec { tv_sec: 30, tv_nsec: 0 };
            assert!(poll(&mut ready, Some(&limit)).unwrap() > 0, "a connection arrives");
            let first = ready.iter().position(|one| !one.revents().is_empty()).unwrap();
            group[first].accept().unwrap();
            seen[first] += 1;
        }
        (0..group.len()).filter(|index| seen[*index] > 0).collect()
    }

    #[test]
    fn only_the_first_listeners_get_connections() {
        let mut group = group(4);
        steer(group[2].as_fd(), NonZero::new(1)).unwrap();
        assert_eq!(receivers(&group), [0]);
        steer(group[0].as_fd(), NonZero::new(2)).unwrap();
        assert_eq!(receivers(&group), [0, 1]);
        steer(group[0].as_fd(), None).unwrap();
        assert_eq!(receivers(&group), [0, 1, 2, 3]);
        // A number of a listener that is gone: the kernel selects another one.
        steer(group[0].as_fd(), NonZero::new(4)).unwrap();
        group.pop();
        assert_eq!(receivers(&group), [0, 1, 2]);
    }

    #[test]
    fn a_single_listener_is_refused() {
        let one = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let error = steer(one.as_fd(), NonZero::new(1)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }
}
