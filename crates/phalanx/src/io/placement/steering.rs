//! Steering of new connections to active processors, within the kernel.
//!
//! Without it, the kernel distributes connections among the listeners of all processors: an inactive one wakes up for
//! its share, and hands each connection over. So the first processor gives the listeners of an address a program
//! ([`Driver::steer`](phalanx_driver::Driver::steer)) that selects among the first ones, as many as processors are
//! active and have a core. All listeners stay open. Listener number `i` of an address belongs to processor `i` if they
//! were made by [`bind`](crate::net::bind()). If they do not, or if the kernel refuses the program, the placement still
//! hands connections over.

use std::num::NonZero;

use phalanx_driver::Socket;

use crate::io::{Io, try_with};

/// Follows a change of the number of active processors, on the thread of each processor. The first one steers new
/// connections.
pub(crate) fn active_changed() {
    try_with(|io| {
        io.placement.placing_listeners().into_iter().for_each(|one| io.steer(one));
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
        // Refused in some sandboxes, and for a listener without a group.
        let _ = self.try_driver(|driver| driver.steer(listener, first));
    }
}
