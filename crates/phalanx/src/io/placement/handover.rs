//! Handing an accepted connection over to the processor that serves it.
//!
//! 1. The processor detaches the connection from its driver, either after the accept and before any request on it, or
//!    later between two requests if the program offers it (`relocation`).
//! 2. It sends the connection as a command to the other processor, with the address of the listener, and with the state
//!    that the program passes on.
//! 3. The other processor's driver takes it over, as if its own listener on that address had accepted it. So the
//!    accept loop of that processor serves it like any other.
//!
//! If that listener has been closed in the meantime, the connection returns, and is closed if the first listener has
//! been closed too.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use phalanx_driver::{Endpoint, Socket};
use socket2::SockRef;

use super::moves::Move;
use super::relocation::Target;
use super::{Placement, ReceivedConnection};
use crate::io::{Io, try_with, with};

/// Counts a connection on its way.
pub(in crate::io) struct ArrivalGuard {
    shared: Arc<Placement>,
    processor: usize,
}

impl ArrivalGuard {
    fn at(shared: &Arc<Placement>, processor: usize) -> Self {
        shared.members[processor].arriving.fetch_add(1, Ordering::Relaxed);
        Self { shared: shared.clone(), processor }
    }
}

impl Drop for ArrivalGuard {
    fn drop(&mut self) {
        self.shared.members[self.processor].arriving.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The state that the program passes on with a connection.
pub(crate) type PassedState = Box<dyn Any + Send>;

/// A connection on its way to another processor. Dropping it closes the connection.
struct Handover {
    connection: Endpoint,
    address: SocketAddr,
    /// The processor that accepted it; `None` if it is returning there.
    from: Option<usize>,
    to: ArrivalGuard,
    /// Whether that processor has served it.
    has_moved: bool,
    state: Option<PassedState>,
}

/// The processor on which an accepted connection is served.
pub(crate) enum Accepted {
    /// This processor. `has_moved` tells whether another one has served the connection before and passed on the state.
    Here { has_moved: bool, state: Option<PassedState> },
    /// Another processor.
    HandedOver,
}

/// A connection that this processor has accepted, and serves.
const ACCEPTED_HERE: Accepted = Accepted::Here { has_moved: false, state: None };

impl Handover {
    fn send(self) {
        let to = self.to.shared.members[self.to.processor].id;
        to.run_later(move || {
            try_with(|io| io.receive_handover(self));
        });
    }
}

impl Io {
    /// Adds a new listener to the placement, if it has an IP address.
    pub(in crate::io) fn add_listener(&self, listener: Socket) {
        let address = match self.placement.shared.members.len() {
            1 => None,
            _ => self.try_driver(|driver| driver.local_addr(listener)).ok(),
        };
        if self.placement.shared.members.len() > 1 {
            self.share(listener);
        }
        self.placement.listen(listener, address);
        if address.is_some() {
            self.steer(listener);
        }
    }

    /// Makes the driver leave connections in the kernel until they are requested, unless the socket of `listener` is in a
    /// group. Other processors may accept from the same socket, such as one of [`Listeners::share`] or [`bind_unix`].
    ///
    /// [`Listeners::share`]: crate::net::Listeners::share
    /// [`bind_unix`]: crate::net::bind_unix()
    fn share(&self, listener: Socket) {
        let _ = self.try_driver(|driver| {
            let has_group = match driver.fd(listener) {
                Some(fd) => SockRef::from(&fd).reuse_port()?,
                None => true,
            };
            if !has_group {
                driver.share(listener);
            }
            Ok(())
        });
    }

    /// Hands `connection`, which `listener` has accepted, to the processor that serves it.
    fn place(&self, listener: Socket, connection: Socket) -> Accepted {
        let placement = &self.placement;
        if placement.shared.members.len() == 1 {
            return ACCEPTED_HERE;
        }
        if let Some(arrived) = placement.take_arrived(connection) {
            return Accepted::Here { has_moved: arrived.has_moved, state: arrived.state };
        }
        let Some(address) = placement.address(listener).filter(|_| !self.drain_announced.get())
        else {
            return ACCEPTED_HERE;
        };
        let target = placement.choose(address);
        let send = || self.send_to(target, address, connection, Move::Placed, || None);
        if target != placement.index && send() { Accepted::HandedOver } else { ACCEPTED_HERE }
    }

    /// Sends `connection` to the processor `target`, which listens on `address`. Returns `false` if a request is in
    /// flight.
    fn send_to(
        &self,
        target: usize,
        address: SocketAddr,
        connection: Socket,
        reason: Move,
        state: impl FnOnce() -> Option<PassedState>,
    ) -> bool {
        let detached = self.try_driver(|driver| Ok(driver.detach(connection)));
        let Ok(Some(connection)) = detached else { return false };
        self.placement.shared.moves.count(reason);
        let (from, to) =
            (Some(self.placement.index), ArrivalGuard::at(&self.placement.shared, target));
        let has_moved = reason != Move::Placed;
        Handover { connection, address, from, to, has_moved, state: state() }.send();
        true
    }

    /// Hands over `connection`, which `listener` has accepted and whose program offers it, to the processor `target`,
    /// with `state`. Returns `false` if it cannot be detached.
    pub(in crate::io) fn relocate(
        &self,
        listener: Socket,
        connection: Socket,
        target: Target,
        state: impl FnOnce() -> Option<PassedState>,
    ) -> bool {
        let Some(address) = self.placement.address(listener) else { return false };
        let reason = if target.spreads { Move::Spread } else { Move::Gathered };
        !self.drain_announced.get()
            && self.send_to(target.processor.into(), address, connection, reason, state)
    }

    /// Takes over a connection that another processor has accepted, or returns it.
    fn receive_handover(&self, handover: Handover) {
        let Handover { connection, address, from, to, has_moved, state } = handover;
        match (self.placement.listener(address), from) {
            (Some(listener), _) => {
                // On an error, the driver has closed the connection, like a failed accept.
                if let Ok(connection) =
                    self.try_driver(|driver| driver.attach(listener, connection))
                {
                    let arrived =
                        ReceivedConnection { connection, listener, has_moved, state, _counted: to };
                    self.placement.arrived.borrow_mut().push(arrived);
                }
            }
            (None, Some(from)) => {
                let to = ArrivalGuard::at(&self.placement.shared, from);
                Handover { connection, address, from: None, to, has_moved, state }.send();
            }
            (None, None) => drop(connection),
        }
    }
}

/// Hands `connection`, which `listener` of this processor has accepted, to the processor that serves it.
pub(crate) fn place(listener: Socket, connection: Socket) -> Accepted {
    with(|io| io.place(listener, connection))
}
