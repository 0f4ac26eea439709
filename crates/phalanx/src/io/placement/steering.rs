//! Steering of new connections to active processors, within the kernel.
//!
//! Without it, the kernel distributes connections among the listeners of all processors, so inactive processors would
//! wake up for their share and hand each connection over. Therefore the first processor attaches a BPF program to the
//! listeners of an address ([`Driver::steer`](phalanx_driver::Driver::steer)). The program selects only among the first
//! listeners, as many as there are active processors with a core. All listeners stay open. Listener `i` of an address
//! belongs to processor `i` if [`bind`](crate::net::bind()) created them. If the order is different, or if the kernel
//! refuses the program, the placement still hands connections over.
//!
//! QUIC connections cannot be handed over, because the connection ID of each packet selects its socket. A program steers
//! the packets that may begin a connection ([`Driver::steer_datagrams`](phalanx_driver::Driver::steer_datagrams)) to the
//! sockets of active processors. The packets of one attempt have the same ID, so they reach the same socket, unless the
//! number of active processors changes meanwhile.

use std::num::NonZero;

use phalanx_driver::Socket;

use crate::io::{Io, try_with};

/// Reacts to a change of the number of active processors, on the thread of each processor. The first processor steers
/// new connections.
pub(crate) fn active_changed() {
    try_with(|io| {
        io.placement.placing_listeners().into_iter().for_each(|one| io.steer(one));
        let groups = io.placement.quic_groups.borrow().clone();
        groups.into_iter().for_each(|(socket, sockets)| io.steer_quic(socket, sockets));
        io.placement.active_changed(phalanx_core::now());
    });
}

impl Io {
    /// Steers the connections of the group to which `listener` belongs.
    pub(in crate::io) fn steer(&self, listener: Socket) {
        let placement = &self.placement;
        let (preferred, all) = (placement.shared.preferred(), placement.shared.processors());
        // A program that never had an inactive processor keeps the kernel's distribution.
        if placement.index != 0 || (preferred == all && !placement.is_steered.get()) {
            return;
        }
        placement.is_steered.set(true);
        let first =
            u32::try_from(preferred).ok().filter(|_| preferred < all).and_then(NonZero::new);
        // The kernel refuses it in some sandboxes, and for a listener without a group.
        let _ = self.try_driver(|driver| driver.steer(listener, first));
    }

    /// Steers new connections of the group of `sockets` to which `socket` belongs, now and after each change of the
    /// number of active processors.
    pub(in crate::io) fn add_quic_group(&self, socket: Socket, sockets: u16) {
        if self.placement.index == 0 && sockets > 1 {
            self.placement.quic_groups.borrow_mut().push((socket, sockets));
            self.steer_quic(socket, sockets);
        }
    }

    fn steer_quic(&self, socket: Socket, sockets: u16) {
        let preferred = self.placement.shared.preferred();
        let first = u16::try_from(preferred).unwrap_or(u16::MAX).min(sockets);
        // The kernel has accepted a program for this group before, unless this is a simulation.
        let _ = self.try_driver(|driver| driver.steer_datagrams(socket, sockets, first));
    }
}
