//! Binding TCP listening sockets, one for each processor.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Type};

/// Connections that the kernel keeps for us until we accept them.
const BACKLOG: i32 = 4096;

/// Listening sockets on `address`, one for each of `processors`, to be handed to
/// [`Listener::new`] on theirs. The kernel spreads connections over them, so that no connection
/// ever changes processors. With port 0 all get the same free port.
///
/// An address in use is tried again for up to two seconds, so this call may block for that long. The kernel cancels the
/// requests of a killed process's io_uring after the process is gone, and its listening sockets live until then.
///
/// # Errors
/// As `bind(2)` and `listen(2)`; also when another process listens there already, even one that
/// would share the port.
pub fn bind(address: SocketAddr, processors: usize) -> io::Result<Vec<TcpListener>> {
    let begun = Instant::now();
    loop {
        match bind_once(address, processors) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                if begun.elapsed() >= RELEASE_TIMEOUT {
                    return Err(still_in_use(&error));
                }
                thread::sleep(RELEASE_POLL_INTERVAL);
            }
            done => return done,
        }
    }
}

/// How long [`bind`] waits for the kernel to release a killed process's sockets. It took 5 to 23 ms with up to 2,000
/// connections on Linux 6.18.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long [`bind`] sleeps between two attempts.
const RELEASE_POLL_INTERVAL: Duration = Duration::from_millis(5);

fn still_in_use(error: &io::Error) -> io::Error {
    let what = format!("{error}; another process has listened there for {RELEASE_TIMEOUT:?}");
    io::Error::new(io::ErrorKind::AddrInUse, what)
}

fn bind_once(address: SocketAddr, processors: usize) -> io::Result<Vec<TcpListener>> {
    // Sharing is asked for below, and would let us slip in beside another server. So find out
    // first, without it, whether the address is free.
    let probe = socket(address)?;
    probe.bind(&address.into())?;
    if processors == 1 {
        probe.listen(BACKLOG)?;
        return Ok(vec![probe.into()]);
    }
    let address = probe.local_addr()?.as_socket().expect("an internet address");
    drop(probe);
    let share = |_| {
        let socket = socket(address)?;
        #[cfg(not(target_os = "solaris"))]
        socket.set_reuse_port(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    };
    (0..processors).map(share).collect()
}

fn socket(address: SocketAddr) -> io::Result<socket2::Socket> {
    let socket =
        socket2::Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    // Accepted connections inherit it: answers are sent whole, so there is nothing to wait for.
    socket.set_tcp_nodelay(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As that of a killed process whose ring is not gone yet.
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
}
