//! Plain TCP connections with timeouts.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};

use crate::wait::TIMEOUT;

/// A listening socket on a free port of the loopback address, and its address.
pub fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound socket");
    (listener, address)
}

/// A loopback address of the calling test only: no other test takes a port that a server there has released. Outside
/// of Linux, which alone configures all of 127/8, the usual one.
///
/// # Panics
/// If a test program asks for more than 2,047 addresses.
pub fn unique_loopback() -> Ipv4Addr {
    static NEXT: AtomicU16 = AtomicU16::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    assert!(number < 2048, "addresses for each of 8,000 processes, which differ while they run");
    let [high, low] = number.to_be_bytes();
    let process = std::process::id();
    match cfg!(target_os = "linux") {
        true => Ipv4Addr::new(
            127,
            (process % 250) as u8 + 3,
            (process / 250 % 32) as u8 * 8 + high,
            low,
        ),
        false => Ipv4Addr::LOCALHOST,
    }
}

/// Connects; reads and writes fail after [`TIMEOUT`].
pub fn connect(address: SocketAddr) -> TcpStream {
    with_timeouts(TcpStream::connect(address).expect("the server accepts connections"))
}

/// Makes reads and writes fail after [`TIMEOUT`], and disables Nagle's algorithm.
pub fn with_timeouts(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(TIMEOUT)).expect("an option");
    stream.set_write_timeout(Some(TIMEOUT)).expect("an option");
    stream.set_nodelay(true).expect("an option");
    stream
}

/// One read, repeated if a signal interrupts it: sockets with a timeout are not restarted by the kernel.
///
/// # Errors
/// Those of the read.
pub fn read(stream: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(into) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Reads until the peer closes or resets the connection, for [`TIMEOUT`] at most without new bytes.
pub fn read_to_end(mut stream: &TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(TIMEOUT)).expect("an option");
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("no end: {error}"),
        _ => bytes,
    }
}

/// Sends all of `input` at once and expects exactly these answers; the connection stays open.
#[track_caller]
pub fn talk(stream: &mut TcpStream, input: impl AsRef<[u8]>, expected: &str) {
    stream.write_all(input.as_ref()).expect("the server takes the input");
    let mut answers = vec![0; expected.len()];
    stream.read_exact(&mut answers).expect("as many bytes as expected");
    assert_eq!(String::from_utf8_lossy(&answers), expected);
}
