//! Binding sockets, one for each processor.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use phalanx_driver::steer_by_connection_id;
use socket2::{Domain, Protocol, Socket, Type};

/// The maximum number of connections that the kernel queues until they are accepted.
pub(super) const BACKLOG: i32 = 4096;

/// The time for which [`bind`] waits for the kernel to release a killed process's sockets. Releasing took 5 to 23 ms
/// with up to 2,000 connections on Linux 6.18.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// The time between two attempts of [`bind`].
const RELEASE_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Binds TCP listening sockets to `address`, one for each of `processors`. Pass each to
/// [`Listener::new`](super::Listener::new) on one of the processors. The kernel distributes connections among them
/// (`SO_REUSEPORT`), so that no connection changes processors. Port 0 selects one free port for all sockets.
///
/// If the address is in use, the function retries for up to two seconds, during which it blocks. The reason is that the
/// kernel cancels the requests of a killed process's io_uring only after the process has ended, and the process's
/// listening sockets stay open until then.
///
/// # Errors
/// The errors of `bind(2)` and `listen(2)`. `AddrInUse` even if the other process listens with `SO_REUSEPORT`.
/// `InvalidInput` if `processors` is zero.
pub fn bind(address: SocketAddr, processors: usize) -> io::Result<Vec<TcpListener>> {
    with_retries(|| bind_once(address, processors))
}

/// Calls `bind` repeatedly for up to [`RELEASE_TIMEOUT`] while the address is in use.
pub(super) fn with_retries<T>(bind: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let start = Instant::now();
    loop {
        match bind() {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                if start.elapsed() >= RELEASE_TIMEOUT {
                    // Otherwise the error already has a specific text.
                    let is_plain = error.get_ref().is_none();
                    return Err(if is_plain { still_in_use(&error) } else { error });
                }
                thread::sleep(RELEASE_POLL_INTERVAL);
            }
            done => return done,
        }
    }
}

fn still_in_use(error: &io::Error) -> io::Error {
    let message = format!(
        "{error}; another process has been listening there for {RELEASE_TIMEOUT:?}; stop it, or choose another address"
    );
    io::Error::new(io::ErrorKind::AddrInUse, message)
}

fn bind_once(address: SocketAddr, processors: usize) -> io::Result<Vec<TcpListener>> {
    let sockets = bind_group(address, processors, tcp)?;
    let listening =
        sockets.into_iter().map(|socket| socket.listen(BACKLOG).map(|()| socket.into()));
    listening.collect()
}

/// Binds UDP sockets to `address`, one for each of `processors`. Pass each to [`UdpSocket::new`](super::UdpSocket::new)
/// on one of the processors. The kernel distributes datagrams among them by the sender's address (`SO_REUSEPORT`), so
/// that all datagrams of one sender arrive on one processor. Port 0 selects one free port for all sockets.
///
/// # Errors
/// The errors of `bind(2)`. `AddrInUse` even if the other process has bound the address with `SO_REUSEPORT`.
/// `InvalidInput` if `processors` is zero.
///
/// ```
/// use phalanx::net::{IoTimeout, UdpSocket, bind_udp};
/// use phalanx::{Graph, Runtime};
/// use std::sync::Mutex;
///
/// let sockets = bind_udp("127.0.0.1:0".parse()?, 2)?;
/// # let (client, address) = (std::net::UdpSocket::bind("127.0.0.1:0")?, sockets[0].local_addr()?);
/// let sockets = Mutex::new(sockets);
/// let mut graph = Graph::new();
/// let log = graph.shared("log", ());
/// Runtime::new().processors(2).run(graph, |start| {
///     let socket = UdpSocket::new(sockets.lock().unwrap().pop().expect("one for each processor"))?;
///     # let control = start.control();
///     log.dispatch(move |_| async move {
///         let mut line = [0; 1500];
///         while let Ok(received) = socket.recv_from(&mut line, IoTimeout::NONE.until_shutdown()).await {
///             println!("{}: {}", received.from, String::from_utf8_lossy(&line[..received.length]));
///             # control.drain();
///         }
///     })?;
///     # client.send_to(b"started", address)?;
///     Ok(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn bind_udp(address: SocketAddr, processors: usize) -> io::Result<Vec<UdpSocket>> {
    Ok(bind_group(address, processors, udp)?.into_iter().map(UdpSocket::from).collect())
}

/// Binds UDP sockets for QUIC to `address`, one for each of `processors`. The kernel passes a datagram to the socket
/// whose number is the first two bytes of the destination connection ID (RFC 8999), modulo `processors`. A server that
/// generates connection IDs accordingly keeps a connection on one processor even if its client changes addresses. After
/// [`UdpSocket::steer_connections`](super::UdpSocket::steer_connections), new connections go to active processors.
///
/// On systems that do not support this, it returns only one socket, for the first processor: on all systems except
/// Linux, and on Linux if a sandbox forbids `SO_ATTACH_REUSEPORT_CBPF`. Port 0 selects one free port for all sockets.
///
/// # Errors
/// The errors of [`bind_udp`].
///
/// # Panics
/// If `processors` does not fit into 16 bits.
pub fn bind_quic(address: SocketAddr, processors: usize) -> io::Result<Vec<UdpSocket>> {
    let count = u16::try_from(processors).expect("the number of processors has 16 bits");
    let mut sockets = bind_udp(address, processors)?;
    if processors > 1 && steer_by_connection_id(sockets[0].as_fd(), count, count).is_err() {
        sockets.truncate(1);
    }
    Ok(sockets)
}

/// # Errors
/// `InvalidInput` for zero.
pub(super) fn check_processors(processors: usize) -> io::Result<()> {
    if processors == 0 {
        let message = "sockets for 0 processors; bind one for each processor";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(())
}

/// Binds a socket for each of `processors` to `address`.
fn bind_group(
    address: SocketAddr,
    processors: usize,
    make: fn(SocketAddr) -> io::Result<Socket>,
) -> io::Result<Vec<Socket>> {
    check_processors(processors)?;
    // Bind once without SO_REUSEPORT first, because with it the call would succeed although another server uses the
    // address.
    let probe = make(address)?;
    probe.bind(&address.into())?;
    if processors == 1 {
        return Ok(vec![probe]);
    }
    let address = probe.local_addr()?.as_socket().expect("an IP address");
    drop(probe);
    let share = |_| {
        let socket = make(address)?;
        #[cfg(not(target_os = "solaris"))]
        socket.set_reuse_port(true)?;
        socket.bind(&address.into())?;
        Ok(socket)
    };
    (0..processors).map(share).collect()
}

fn tcp(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    // Accepted connections inherit this option. Servers send whole responses, so delaying small segments gains nothing.
    socket.set_tcp_nodelay(true)?;
    Ok(socket)
}

fn udp(address: SocketAddr) -> io::Result<Socket> {
    Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Like the listener of a killed process whose ring still exists.
    #[test]
    fn bind_waits_for_a_listener_that_goes() {
        let old = bind(([127, 0, 0, 1], 0).into(), 1).unwrap().remove(0);
        let address = old.local_addr().unwrap();
        let in_use = bind_once(address, 2).unwrap_err();
        assert_eq!(in_use.kind(), io::ErrorKind::AddrInUse);
        let new = thread::spawn(move || bind(address, 2));
        thread::sleep(10 * RELEASE_POLL_INTERVAL);
        drop(old);
        assert_eq!(new.join().unwrap().unwrap().len(), 2);
    }

    #[test]
    fn bind_gives_up_on_a_listener_that_stays() {
        let old = bind(([127, 0, 0, 1], 0).into(), 1).unwrap().remove(0);
        let error = bind(old.local_addr().unwrap(), 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(error.to_string().contains("another process"), "{error}");
    }

    #[test]
    fn sockets_for_no_processor_are_refused() {
        let address = ([127, 0, 0, 1], 0).into();
        let path = tempfile::tempdir().unwrap().path().join("socket");
        let errors = [
            bind(address, 0).unwrap_err(),
            bind_udp(address, 0).unwrap_err(),
            bind_quic(address, 0).unwrap_err(),
            crate::net::bind_unix(path, 0).unwrap_err(),
        ];
        assert_eq!(errors.map(|error| error.kind()), [io::ErrorKind::InvalidInput; 4]);
    }

    #[test]
    fn udp_sockets_share_a_port() {
        let sockets = bind_udp(([127, 0, 0, 1], 0).into(), 3).unwrap();
        let addresses: Vec<_> = sockets.iter().map(|socket| socket.local_addr().unwrap()).collect();
        assert_eq!(addresses, [addresses[0]; 3]);
        assert_eq!(bind_udp(addresses[0], 1).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn connection_identifiers_select_the_socket() {
        let sockets = bind_quic(([127, 0, 0, 1], 0).into(), 3).unwrap();
        if sockets.len() == 1 {
            return;
        }
        let address = sockets[0].local_addr().unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        for first in [0_u16, 1, 2, 3, 500, 0xffff] {
            let [high, low] = first.to_be_bytes();
            let short = [0x40, high, low, 3, 4];
            let long = [0xc0, 0, 0, 0, 1, 8, high, low, 3, 4];
            let own = &sockets[usize::from(first) % sockets.len()];
            own.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            for datagram in [&short[..], &long] {
                client.send_to(datagram, address).unwrap();
                let mut buffer = [0; 20];
                let length = own.recv(&mut buffer).unwrap();
                assert_eq!(&buffer[..length], datagram);
            }
        }
        // Too short for an identifier.
        client.send_to(b"\x40", address).unwrap();
        sockets[0].set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        assert_eq!(sockets[0].recv(&mut [0; 20]).unwrap(), 1);
    }
}
