//! Binding sockets, one for each processor.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

/// The largest number of connections that the kernel keeps until they are accepted.
const BACKLOG: i32 = 4096;

/// How long [`bind`] waits for the kernel to release a killed process's sockets. It took 5 to 23 ms with up to 2,000
/// connections on Linux 6.18.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long [`bind`] sleeps between two attempts.
const RELEASE_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// TCP listening sockets on `address`, one for each of `processors`, for [`Listener::new`](super::Listener::new) on that
/// processor. The kernel distributes connections among them (`SO_REUSEPORT`), so that no connection changes processors.
/// Port 0 selects one free port for all.
///
/// If the address is in use, the call is repeated for up to two seconds, and blocks for that long: the kernel cancels
/// the requests of a killed process's io_uring after the process has ended, and its listening sockets live until then.
///
/// # Errors
/// As `bind(2)` and `listen(2)`; also if another process listens there with `SO_REUSEPORT`.
pub fn bind(address: SocketAddr, processors: usize) -> io::Result<Vec<TcpListener>> {
    let start = Instant::now();
    loop {
        match bind_once(address, processors) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                if start.elapsed() >= RELEASE_TIMEOUT {
                    return Err(still_in_use(&error));
                }
                thread::sleep(RELEASE_POLL_INTERVAL);
            }
            done => return done,
        }
    }
}

fn still_in_use(error: &io::Error) -> io::Error {
    let what = format!(
        "{error}; another process has listened there for {RELEASE_TIMEOUT:?}; stop it, or choose another address"
    );
    io::Error::new(io::ErrorKind::AddrInUse, what)
}

fn bind_once(address: SocketAddr, processors: usize) -> io::Result<Vec<TcpListener>> {
    let sockets = bind_group(address, processors, tcp)?;
    let listening =
        sockets.into_iter().map(|socket| socket.listen(BACKLOG).map(|()| socket.into()));
    listening.collect()
}

/// UDP sockets on `address`, one for each of `processors`, for [`UdpSocket::new`](super::UdpSocket::new) on that
/// processor. The kernel distributes datagrams among them by the sender's address (`SO_REUSEPORT`), so that all
/// datagrams of one sender arrive on one processor. Port 0 selects one free port for all.
///
/// # Errors
/// As `bind(2)`; also if another process has bound the address with `SO_REUSEPORT`.
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

/// Binds a socket for each of `processors` to `address`.
fn bind_group(
    address: SocketAddr,
    processors: usize,
    make: fn(SocketAddr) -> io::Result<Socket>,
) -> io::Result<Vec<Socket>> {
    // Without SO_REUSEPORT first: with it, the call would succeed beside another server's sockets.
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
    // Accepted connections inherit it. Servers send whole answers, so delaying small segments gains nothing.
    socket.set_tcp_nodelay(true)?;
    Ok(socket)
}

fn udp(address: SocketAddr) -> io::Result<Socket> {
    Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))
}

/// Listening Unix sockets at `path`, one for each of `processors`, for [`Listener::new`](super::Listener::new) on that
/// processor. They are descriptors of one socket, so a connection goes to the first processor that accepts it.
///
/// The socket's file is not removed at the end. A file that another process left behind, to which connections are
/// refused, is replaced. Processes with write permission for the file can connect; its mode is 0777 less the umask.
///
/// # Errors
/// As `bind(2)`: `AddrInUse` if a process listens at `path`, or if the file is not a socket. `InvalidInput` for a path
/// of more than 107 bytes.
///
/// ```
/// use phalanx::net::{IoTimeout, Listener, Stream, bind_unix};
/// use phalanx::{Graph, Runtime};
/// use std::sync::Mutex;
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("socket");
/// let sockets = Mutex::new(bind_unix(&path, 1)?);
/// let mut graph = Graph::new();
/// let clients = graph.shared("clients", ());
/// Runtime::new().processors(1).run(graph, |start| {
///     let listener = Listener::new(sockets.lock().unwrap().pop().expect("one for each processor"))?;
///     clients.dispatch(move |_| listener.accept_each(move |stream| {
///         let _ = clients.dispatch(move |_| async move {
///             let _ = stream.write(b"hello\n".to_vec(), IoTimeout::NONE).await;
///         });
///     }))?;
///     # let (control, path) = (start.control(), path.clone());
///     clients.dispatch(move |_| async move {
///         let stream = Stream::connect_unix(path, IoTimeout::NONE).await.unwrap();
///         let mut greeting = [0; 6];
///         stream.read_exact(&mut greeting, IoTimeout::NONE).await.unwrap();
///         assert_eq!(&greeting, b"hello\n");
///         # control.drain();
///     })?;
///     Ok(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn bind_unix(path: impl AsRef<Path>, processors: usize) -> io::Result<Vec<UnixListener>> {
    let path = path.as_ref();
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_stale(path) => {
            std::fs::remove_file(path)?;
            UnixListener::bind(path)?
        }
        bound => bound?,
    };
    socket2::SockRef::from(&listener).listen(BACKLOG)?;
    let clones = (1..processors).map(|_| listener.try_clone());
    let mut listeners = clones.collect::<io::Result<Vec<_>>>()?;
    listeners.push(listener);
    Ok(listeners)
}

/// Whether `path` is a socket on which no process listens any more.
fn is_stale(path: &Path) -> bool {
    let is_socket = path.symlink_metadata().is_ok_and(|file| file.file_type().is_socket());
    is_socket
        && UnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the listener of a killed process whose ring still exists.
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
    fn a_stale_unix_socket_is_replaced_and_a_live_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let old = bind_unix(&path, 2).unwrap();
        assert_eq!(old.len(), 2);
        assert_eq!(bind_unix(&path, 1).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(old);
        assert_eq!(bind_unix(&path, 1).unwrap().len(), 1);
        let file = directory.path().join("file");
        std::fs::write(&file, "kept").unwrap();
        assert_eq!(bind_unix(&file, 1).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(std::fs::read(&file).unwrap(), b"kept");
    }

    #[test]
    fn udp_sockets_share_a_port() {
        let sockets = bind_udp(([127, 0, 0, 1], 0).into(), 3).unwrap();
        let addresses: Vec<_> = sockets.iter().map(|socket| socket.local_addr().unwrap()).collect();
        assert_eq!(addresses, [addresses[0]; 3]);
        assert_eq!(bind_udp(addresses[0], 1).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
