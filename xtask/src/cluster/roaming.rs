//! Clients that change their node.

use std::time::{Duration, Instant};

use fastrand::Rng;

use super::load::Shared;

/// Limits of the time that a client stays at a node, in milliseconds.
const STAY_MS: (u64, u64) = (300, 4_000);

/// The nodes that a client visits.
pub(super) struct Route {
    nodes: u64,
    /// `None` if the client stays where it is.
    random: Option<Rng>,
    leave_at: Option<Instant>,
}

impl Route {
    /// The course of the client with this name.
    pub(super) fn new(shared: &Shared, client: &str) -> Self {
        let mix = |seed: u64, byte| (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).max(1);
        let random = shared.roams.map(|seed| Rng::with_seed(client.bytes().fold(seed, mix)));
        Self { nodes: shared.cluster.nodes.len() as u64, random, leave_at: None }
    }

    /// Draws when the client, which has arrived at a node, leaves it.
    pub(super) fn arrive(&mut self) {
        let stay = |random: &mut Rng| STAY_MS.0 + random.u64(..STAY_MS.1 - STAY_MS.0);
        let stay = self.random.as_mut().map(stay);
        self.leave_at = stay.map(|stay| Instant::now() + Duration::from_millis(stay));
    }

    /// Whether the client is to leave its node.
    pub(super) fn is_due(&self) -> bool {
        self.leave_at.is_some_and(|at| Instant::now() >= at)
    }

    /// The node for the next connection: another one if the client is to leave this one.
    pub(super) fn next(&mut self, at: usize) -> usize {
        let is_due = self.is_due();
        match &mut self.random {
            Some(random) if is_due => {
                let steps = 1 + random.u64(..self.nodes - 1);
                ((at as u64 + steps) % self.nodes) as usize
            }
            _ => at,
        }
    }
}
