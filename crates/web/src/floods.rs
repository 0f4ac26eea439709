//! Counters of connections closed because the client exceeded a limit for costly frames, by limit.

use std::sync::Arc;

use phalanx::metrics::Counter;
use phalanx_http2::Excess;

/// A counter for each limit. Clones share them.
#[derive(Clone)]
pub(crate) struct Floods(Arc<[(Excess, Counter)]>);

impl Floods {
    /// HTTP/2 counters.
    pub(crate) fn http2() -> Self {
        const HELP: &str =
            "HTTP/2 connections closed because the client exceeded a limit for costly frames.";
        Self::new("phalanx_web_http2_floods", HELP)
    }

    /// HTTP/3 counters.
    pub(crate) fn http3() -> Self {
        const HELP: &str =
            "HTTP/3 connections closed because the client exceeded a limit for costly frames.";
        Self::new("phalanx_web_http3_floods", HELP)
    }

    fn new(name: &'static str, help: &'static str) -> Self {
        let counter = |excess: Excess| Counter::with_label(name, help, ("reason", excess.name()));
        Self(Excess::ALL.map(|excess| (excess, counter(excess))).into())
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
