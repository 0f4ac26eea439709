//! A simulated program's listening sockets.

use std::cell::RefCell;
use std::io;

use phalanx_driver::Endpoint;

use crate::net::{self, Listener};
use crate::program::StartContext;

/// Listening sockets at one address of a simulated network, one for each processor. This is the counterpart of
/// [`net::Listeners`](crate::net::Listeners). Created by [`World::listen`](super::World::listen) and
/// [`World::listen_unix`](super::World::listen_unix).
pub struct Listeners(RefCell<Vec<Option<Endpoint>>>);

impl Listeners {
    pub(super) fn new(sockets: impl Iterator<Item = Endpoint>) -> Self {
        Self(RefCell::new(sockets.map(Some).collect()))
    }

    /// The listener of the starting processor.
    ///
    /// # Errors
    /// `NotFound` if the processor's socket was already taken, or if the number of processors was increased after the
    /// sockets were created.
    pub fn listener(&self, start: &StartContext) -> io::Result<Listener> {
        net::take(&mut self.0.borrow_mut(), start)
    }
}
