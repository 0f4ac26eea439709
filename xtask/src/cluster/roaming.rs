//! Clients that change their node.

use std::time::{Duration, Instant};

use fastrand::Rng;

use super::load::Shared;

/// Limits of the time that a client stays at a node, in milliseconds.
const STAYS: (u64, u64) = (300, 4_000);

/// The nodes that a client visits.
pub(super) struct Course {
    nodes: u64,
    /// `None` if the client stays where it is.
    random: Option<Rng>,
    leaves: Option<Instant>,
}

impl Course {
    /// The course of the client with this name.
    pub(super) fn of(shared: &Shared, client: &str) -> Self {
        let mix = |seed: u64, byte| (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).max(1);
        let random = shared.roams.map(|seed| Rng::with_seed(client.bytes().fold(seed, mix)));
        Self { nodes: shared.cluster.nodes.len() as u64, random, leaves: None }
    }

    /// Draws when the client, which has arrived at a node, leaves it.
    pub(super) fn arrive(&mut self) {
        let stay = |random: &mut Rng| STAYS.0 + random.u64(..STAYS.1 - STAYS.0);
        let stay = self.random.as_mut().map(stay);
        self.leaves = stay.map(|stay| Instant::now() + Duration::from_millis(stay));
    }

    /// Whether the client is to leave its node.
    pub(super) fn is_due(&self) -> bool {
        self.leaves.is_some_and(|at| Instant::now() >= at)
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
