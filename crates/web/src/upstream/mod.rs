//! The servers behind a reverse proxy, and the connections to them.
//!
//! A [`Group`] is compiled from a rule of the configuration; all processors share it. Each processor has its own
//! connections to the group's servers ([`Local`]), so a request takes one without a lock or a crossing.
//!
//! | file | idea |
//! |---|---|
//! | `group.rs` | the servers that share the requests of some paths |
//! | `health.rs` | servers that fail repeatedly get no requests for a while |
//! | `check.rs` | health checks: regular requests to a server |
//! | `local.rs` | a processor's slots, unused connections and waiting requests |
//! | `queue.rs` | requests that wait for a slot, in order |
//! | `shared_limit.rs` | a limit that the workers share |
//! | `slots.rs` | a processor's slots at one server, and its connections |
//! | `tried.rs` | the servers that a request could not reach |
//! | `multiplexed/` | connections with HTTP/2, each of which many requests use |
//! | `lease.rs` | a connection that one request uses |
//! | `pools.rs` | the groups that a processor has connections to, and the end of unused connections |
//! | `counters.rs` | metrics |
//! | `up.rs` | the results of health checks in the metrics |
//!
//! # Bounds
//!
//! All workers together have at most `max-requests` connections in use to each server, but each worker may have one,
//! and at most `max-queue` waiting requests. Each worker has at most `max-idle-connections` unused connections to each
//! server, or as many as it has just needed, up to its part of `max-requests`. A request on a connection with HTTP/2
//! counts like a connection. Each wait has a time limit.

mod check;
mod counters;
mod group;
mod health;
mod lease;
mod local;
mod multiplexed;
mod pools;
mod queue;
mod shared_limit;
mod slots;
mod tried;
mod up;

pub(crate) use check::check;
pub(crate) use counters::{Failure, UpstreamCounters};
pub(crate) use group::{Group, Member, Trust};
pub(crate) use lease::{Lease, Line, Search};
pub(crate) use multiplexed::Claim;
pub(crate) use pools::{NamedPools, Pools};
