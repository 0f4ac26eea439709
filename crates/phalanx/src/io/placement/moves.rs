//! Counters of the connections that were handed to another processor.

use crate::metrics::Counter;
#[cfg(feature = "admin")]
use crate::metrics::Registered;

/// The reason why a connection was handed to another processor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::io) enum Move {
    /// Before its first request, by the placement of new connections.
    Placed,
    /// Between two requests, because one processor can do the work of both, or because this one is inactive.
    Gathered,
    /// Between two requests, because this processor's core is full and another one is idle.
    Spread,
}

/// The counters of a program.
pub(in crate::io) struct Moves([Counter; 3]);

impl Moves {
    pub(in crate::io) fn count(&self, reason: Move) {
        self.0[reason as usize].add(1);
    }

    #[cfg(feature = "admin")]
    pub(in crate::io) fn register(&self, metrics: &mut Registered) {
        self.0.iter().for_each(|counter| metrics.add_counter(counter));
    }
}

impl Default for Moves {
    fn default() -> Self {
        let help = "Connections handed to another processor.";
        Self(["placed", "gathered", "spread"].map(|reason| {
            Counter::with_label("phalanx_connections_moved", help, ("reason", reason))
        }))
    }
}
