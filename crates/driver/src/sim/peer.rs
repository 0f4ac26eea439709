//! Sockets of the simulated network that no driver owns: clients' sockets, and sockets that a driver will adopt.

use std::io;
use std::net::Shutdown;

use super::World;
use super::net::{self, End};
use crate::Address;

/// A client's end of a simulated connection. Its calls never block. Dropping the value closes the connection.
#[derive(Debug)]
pub struct Peer {
    world: World,
    end: Option<End>,
}

impl Peer {
    pub(super) fn new(world: World, end: End) -> Self {
        Self { world, end: Some(end) }
    }

    fn end(&self) -> End {
        self.end.expect("there until it is dropped")
    }

    /// Takes bytes that have arrived; 0 is the end of the stream.
    ///
    /// # Errors
    /// `WouldBlock` if nothing has arrived; `ConnectionReset`.
    pub fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        net::receive(&mut self.world.state(), self.end(), into)
    }

    /// Sends as much of `bytes` as there is space for.
    ///
    /// # Errors
    /// `WouldBlock` if there is no space; `ConnectionReset`, `BrokenPipe`.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        net::send(&mut self.world.state(), self.end(), bytes)
    }

    /// Shuts down one or both directions.
    ///
    /// # Errors
    /// `NotConnected` after a reset.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        net::shutdown(&mut self.world.state(), self.end(), how)
    }

    /// Closes the connection, so that the other end loses the bytes in transit.
    pub fn reset(mut self) {
        let end = self.end.take().expect("there until it is dropped");
        net::reset(&mut self.world.state(), end);
    }

    /// The address of this end.
    pub fn local_addr(&self) -> Address {
        self.world.state().net.address(self.end()).clone()
    }

    /// Whether it belongs to `world`.
    pub(super) fn is_of(&self, world: &World) -> bool {
        self.world.is_same(world)
    }

    pub(super) fn into_end(mut self) -> (World, End) {
        (self.world.clone(), self.end.take().expect("there until it is dropped"))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            net::close(&mut self.world.state(), end);
        }
    }
}

/// A listening socket that no driver has adopted yet.
#[derive(Debug)]
pub struct Listening {
    world: World,
    listener: Option<usize>,
}

impl Listening {
    pub(super) fn new(world: World, address: Address) -> Self {
        let listener = world.state().net.listen(address);
        Self { world, listener: Some(listener) }
    }

    /// The address on which it listens.
    pub fn local_addr(&self) -> Address {
        let listener = self.listener.expect("there until it is dropped");
        self.world.state().net.listener_address(listener).clone()
    }

    pub(super) fn is_of(&self, world: &World) -> bool {
        self.world.is_same(world)
    }

    pub(super) fn into_listener(mut self) -> (World, usize) {
        (self.world.clone(), self.listener.take().expect("there until it is dropped"))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(listener) = self.listener.take() {
            net::close_listener(&mut self.world.state(), listener);
        }
    }
}
