//! A TCP relay between a node and NATS, whose traffic can be stopped.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

/// Interval at which a connection looks for a change of the mode.
const POLL: Duration = Duration::from_millis(10);

/// How a relay treats its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Passes all data.
    Open,
    /// Keeps connections, and holds their data back until the next change.
    Frozen,
    /// Closes connections, and each new one.
    Closed,
    /// The relay ends.
    Ended,
}

/// A running relay. Dropping it closes all connections.
#[derive(Debug)]
pub(super) struct Relay {
    pub(super) address: SocketAddr,
    mode: Arc<AtomicU8>,
}

impl Relay {
    /// Accepts at a free port of `host`, and connects to `to`.
    pub(super) fn start(host: IpAddr, to: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((host, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let mode = Arc::new(AtomicU8::new(Mode::Open as u8));
        let shared_mode = mode.clone();
        thread::spawn(move || accept(&listener, to, &shared_mode));
        Ok(Self { address, mode })
    }

    pub(super) fn set(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::Relaxed);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.set(Mode::Ended);
    }
}

fn has_mode(mode: &AtomicU8, expected: Mode) -> bool {
    mode.load(Ordering::Relaxed) == expected as u8
}

fn accept(listener: &TcpListener, to: SocketAddr, mode: &Arc<AtomicU8>) {
    while !has_mode(mode, Mode::Ended) {
        match listener.accept() {
            // A closed relay, or an unreachable server: the connection ends.
            Ok((client_side, _)) if !has_mode(mode, Mode::Closed) => {
                // Takes long if the server's machine is cut off.
                let shared_mode = mode.clone();
                thread::spawn(move || {
                    let server_side = TcpStream::connect(to);
                    server_side.and_then(|server_side| join(client_side, server_side, &shared_mode))
                });
            }
            Ok(_) => (),
            Err(_) => thread::sleep(POLL),
        }
    }
}

/// Passes data in both directions, in two threads.
fn join(client_side: TcpStream, server_side: TcpStream, mode: &Arc<AtomicU8>) -> io::Result<()> {
    client_side.set_nonblocking(false)?;
    for (from, to) in
        [(client_side.try_clone()?, server_side.try_clone()?), (server_side, client_side)]
    {
        from.set_read_timeout(Some(POLL))?;
        to.set_nodelay(true)?;
        let shared_mode = mode.clone();
        thread::spawn(move || {
            let _ = pass(&from, &to, &shared_mode);
            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
        });
    }
    Ok(())
}

fn pass(mut from: &TcpStream, mut to: &TcpStream, mode: &AtomicU8) -> io::Result<()> {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let count = match from.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => 0,
                _ => return Err(error),
            },
        };
        while has_mode(mode, Mode::Frozen) {
            thread::sleep(POLL);
        }
        if has_mode(mode, Mode::Closed) || has_mode(mode, Mode::Ended) {
            return Ok(());
        }
        to.write_all(&bytes[..count])?;
    }
}
