//! The stages that send requests, and their counters.

use phalanx::SharedStage;
use phalanx::metrics::Counter;
use phalanx::net::Resolver;

/// The stage that sends requests, the one that resolves host names, and the counters.
#[derive(Clone)]
pub struct Fetcher {
    /// The stage of the requests.
    pub stage: SharedStage<()>,
    /// Resolves host names.
    pub resolver: Resolver,
    /// Successful requests.
    pub fetched: Counter,
    /// Failed requests.
    pub failed: Counter,
}
