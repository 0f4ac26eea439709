//! An MQTT broker as stages.
//!
//! Like the publish/subscribe server of the 2002 paper (§5.2) it matches events against subscriptions in
//! cohorts; the paper does not list its stages. A published message travels down these stages, and back up to
//! the subscribers:
//!
//! | stage | file | what an operation does |
//! |---|---|---|
//! | control | `connection/reader.rs`, `connection/client/sender.rs` | reads from one client; writes to it |
//! | sessions | `session/operations/mod.rs` | changes a client's session, or delivers messages to it |
//! | routing | `routing/stage.rs` | a cohort operation: finds the receivers of a cohort's messages |
//! | delivery | `routing/stage.rs` | delivers a cohort's messages to each partition of the sessions |
//!
//! With a [persistence directory](Config::persistence_dir), acknowledged state survives a crash: see
//! `durable/mod.rs`.
//!
//! Work is batched at each step. All messages of one read are one item of the routing stage. All messages of a routing
//! cohort are one operation per session partition. All resulting deliveries to one client are one write.

#![forbid(unsafe_code)]

mod access;
mod admin;
mod bridge;
mod cluster;
mod cluster_names;
mod config;
mod connection;
mod content;
mod context;
mod counters;
mod durable;
mod events;
mod kept;
mod lane;
mod limits;
mod link;
mod listen;
mod lock;
mod model;
mod peers;
mod requests;
mod routing;
mod serve;
mod session;
mod transport;
/// The simulated MQTT client, shared with `tests`.
#[cfg(test)]
#[path = "../tests/it/simulation/wire.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod wire;

pub use config::{
    AuthHttp, BodyFormat, Bridge, BridgeTls, BridgeTopic, Cluster, Config, ConfigError, Direction,
    JwtConfig, Limits, ListenerConfig, LogConfig, LoginMethod, NatsServer, Origins, Protocol,
    Remote, RuntimeConfig, Security, Tls, WhenFull,
};
pub use events::{EventClass, LogFormat};
pub use listen::{Listen, Scheme};
pub use phalanx_service::{Inherited, Operator, Reload, Reloaded, Serving};
pub use phalanx_store::{Checked, OpenError};
pub use serve::error::ServeError;
pub use serve::reload::Reloader;
pub use serve::{Broker, check_persistence_dir, operate, serve};
