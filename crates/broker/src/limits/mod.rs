//! Limits on connections and on work in progress.
//!
//! | file | limits |
//! |---|---|
//! | `peer.rs` | the number and the rate of connections from one address |
//! | `rate_limit.rs` | the messages of a client per second |
//! | `refused_logins.rs` | log lines about refused logins |
//! | `places.rs` | the number of sessions |
//! | `delivery_limiter.rs` | deliveries in flight from publishers to sessions |
//!
//! `settings.rs` has the settings in force, which a reload replaces.

pub(crate) mod delivery_limiter;
#[cfg(test)]
mod delivery_limiter_sim;
pub(crate) mod peer;
pub(crate) mod places;
pub(crate) mod rate_limit;
pub(crate) mod refused_logins;
pub(crate) mod settings;
