//! Numbers of queues.

/// Maximum number of carriers.
pub(crate) const MAX_LANES: usize = 1024;
/// Number of sites, each with a queue per carrier.
pub(crate) const SITES: usize = 64;
