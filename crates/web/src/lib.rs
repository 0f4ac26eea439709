//! A static file server as stages.
//!
//! The stages follow the web server of the 2002 paper (§3.6, §5.1): network, control logic, a partitioned
//! file cache, an I/O aggregator that merges adjacent reads, and disk. An operation of the control stage
//! here is a connection's whole life. A request travels down the stages and its answer back up:
//!
//! | stage | file | what an operation does |
//! |---|---|---|
//! | network | `connection/network.rs`, `accept.rs` | accepts, receives or sends once |
//! | refusals | `connection/refusal.rs` | tells a connection that there is no room for it |
//! | handshakes | `crates/tls` | from a socket to a connection with TLS, where there is TLS |
//! | streams | `http2/connection.rs` | drives a connection of HTTP/2 |
//! | control | `connection/mod.rs`, `respond.rs` | serves one connection, request after request |
//! | control too | `http2/stream.rs` | serves one request by HTTP/2 |
//! | file cache | `files/lookup.rs`, `cache.rs`, `blocks.rs` | finds a file, or a block of a large one |
//! | aggregator | `files/aggregator.rs` | a cohort operation: merges the reads of a cohort |
//! | disk | `files/disk.rs` | opens a file; reads what was gathered, merged |
//! | slow | `files/make.rs`, `list.rs` | compresses a file, or reads a directory, on threads of its own |
//! | passwords | `auth/passwords.rs` | finds out whether a password is right, on threads of its own |

#![forbid(unsafe_code)]

mod auth;
mod config;
mod connection;
mod files;
mod http2;
mod listing;
mod log;
mod reload;
mod serve;
mod site;
mod stages;

pub use auth::files::UsersError;
pub use config::{
    AccessLog, Auth, CacheRule, Config, ConfigError, Cors, HeaderRule, HostConfig, Listen,
    LogFormat, LogTarget, Origins, PerAddress, Redirect, RedirectStatus, Rewrite, RuntimeConfig,
    SecurityHeaders, Symlinks, Timeouts, Tls, TypeRule, UnknownHost, amount,
};
pub use phalanx_tls::CertificateError;
pub use reload::inherited::Inherited;
pub use reload::operator::{Operator, operate};
pub use reload::{Reloaded, Reloader};
pub use serve::{ServeError, Server, Serving, serve};
