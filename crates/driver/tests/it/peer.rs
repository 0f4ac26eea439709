//! The other end of a connection: a plain blocking socket, or one of a simulated world.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use phalanx_driver::sim;
use socket2::SockRef;

/// The test's end of a connection.
pub(crate) enum Peer {
    Real(TcpStream),
    Simulated { world: sim::World, end: Arc<sim::Peer>, blocks: bool },
}

/// Connects outside the driver, even after the driver was dropped.
#[derive(Clone)]
pub(crate) struct Outside(pub(crate) Option<sim::World>);

impl Outside {
    pub(crate) fn connect(&self, address: SocketAddr) -> io::Result<Peer> {
        Ok(match &self.0 {
            None => Peer::Real(TcpStream::connect(address)?),
            Some(world) => {
                let end = Arc::new(world.connect(address)?);
                Peer::Simulated { world: world.clone(), end, blocks: true }
            }
        })
    }
}

impl Peer {
    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Self::Real(stream) => stream.shutdown(how),
            Self::Simulated { end, .. } => end.shutdown(how),
        }
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Real(stream) => Self::Real(stream.try_clone()?),
            Self::Simulated { world, end, blocks } => {
                Self::Simulated { world: world.clone(), end: Arc::clone(end), blocks: *blocks }
            }
        })
    }

    pub(crate) fn set_nonblocking(&mut self, nonblocking: bool) -> io::Result<()> {
        match self {
            Self::Real(stream) => stream.set_nonblocking(nonblocking)?,
            Self::Simulated { blocks, .. } => *blocks = !nonblocking,
        }
        Ok(())
    }

    /// Closes it so that the other end loses the bytes in transit.
    pub(crate) fn reset(self) {
        match self {
            Self::Real(stream) => {
                SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
            }
            Self::Simulated { end, .. } => Arc::into_inner(end).expect("the only one").reset(),
        }
    }
}

/// Repeats a call that would block, and advances the world's time.
fn wait(
    world: &sim::World,
    blocks: bool,
    mut call: impl FnMut() -> io::Result<usize>,
) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && blocks => {
                match world.next_arrival() {
                    Some(at) => world.advance_to(at),
                    None => thread::sleep(Duration::from_micros(20)),
                }
            }
            result => return result,
        }
    }
}

impl Read for Peer {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Real(stream) => stream.read(into),
            Self::Simulated { world, end, blocks } => wait(world, *blocks, || end.try_read(into)),
        }
    }
}

impl Write for Peer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Real(stream) => stream.write(bytes),
            Self::Simulated { world, end, blocks } => wait(world, *blocks, || end.try_write(bytes)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
