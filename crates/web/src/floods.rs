//! Counters of HTTP/2 connections that ended with ENHANCE_YOUR_CALM, by the limit that the client exceeded.

use std::sync::Arc;

use phalanx::metrics::Counter;
use phalanx_http2::Excess;

/// A counter for each limit. Clones share them.
#[derive(Clone)]
pub(crate) struct Floods(Arc<[(Excess, Counter)]>);

impl Floods {
    pub(crate) fn new() -> Self {
        let counters = Excess::ALL.map(|excess| {
            let counter = Counter::with_label(
                "phalanx_web_http2_floods",
                "HTTP/2 connections closed because the client exceeded a limit for costly frames.",
                ("reason", excess.name()),
            );
            (excess, counter)
        });
        Self(counters.into())
    }

    /// Counts a connection.
    pub(crate) fn count(&self, excess: Excess) {
        if let Some((_, counter)) = self.0.iter().find(|(other, _)| *other == excess) {
            counter.add(1);
        }
    }

    /// The counters for the metrics.
    pub(crate) fn counters(&self) -> impl Iterator<Item = &Counter> {
        self.0.iter().map(|(_, counter)| counter)
    }
}
