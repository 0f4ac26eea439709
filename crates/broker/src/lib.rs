//! An MQTT broker as stages.
//!
//! Like the publish/subscribe server of the 2002 paper (§5.2) it matches events against subscriptions in
//! cohorts; the paper does not list its stages. A published message travels down these stages, and back up to
//! the subscribers:
//!
//! | stage | file | what an operation does |
//! |---|---|---|
//! | control | `connection/mod.rs`, `sender.rs` | listens to one client; sends to it |
//! | sessions | `session/operations.rs` | changes one client's session, or hands it messages |
//! | routing | `routing/stage.rs` | a cohort operation: finds out for whom the messages of a cohort are |
//! | delivery | `routing/stage.rs` | hands each partition of the sessions its part of a cohort |
//!
//! What a client was told is kept, if the broker [keeps](Config::persistence_dir) anything: see `durable/mod.rs`.
//!
//! All that has come from a client is one item of the routing stage, all messages of a cohort of those are one
//! operation on each partition of the sessions, and all that these come to for one client is one send.

#![forbid(unsafe_code)]

mod access;
mod config;
mod connection;
mod content;
mod counters;
mod drops;
mod durable;
mod listen;
mod log;
mod message;
mod message_pool;
mod notify;
mod operator;
mod reload;
mod routing;
mod serve;
mod session;
mod settings;
mod stages;
mod system;
mod trie;
/// What simulated clients of the broker speak, here and in `tests`.
#[cfg(test)]
#[path = "../tests/simulation/wire.rs"]
#[expect(dead_code, reason = "others need more of it")]
mod wire;

pub use config::{Config, ConfigError, Limits, Origins, RuntimeConfig, Security, Tls, WhenFull};
pub use listen::Listen;
pub use operator::{Operator, operate};
pub use phalanx_store::{Checked, OpenError};
pub use reload::{Reloaded, Reloader};
pub use serve::{Broker, ServeError, Serving, check_persistence_dir, serve};
