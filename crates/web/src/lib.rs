//! A static file server built of stages.
//!
//! The stages follow the web server of the 2002 paper (§3.6, §5.1): network, control logic, a partitioned
//! file cache, an I/O aggregator that merges adjacent reads, and disk. Here, one operation of the control
//! stage serves a connection for its whole life. A request travels down the stages, and its response back up:
//!
//! | stage | file | an operation |
//! |---|---|---|
//! | network | `conn/accept.rs`, `socket/network.rs` | accepts, receives or sends once |
//! | refusals | `conn/reject.rs` | rejects a connection beyond a limit |
//! | handshakes | `crates/tls` | performs a TLS handshake, where TLS is configured |
//! | streams | `http2/connection.rs` | drives one HTTP/2 connection |
//! | control | `http1/connection.rs`, `respond/` | serves one connection, request after request |
//! | streams | `conn/quic.rs`, `crates/quic` | receives the datagrams of a UDP socket |
//! | streams | `http3/connection.rs` | drives one HTTP/3 connection |
//! | control | `http2/stream.rs`, `http3/stream.rs`, `streams/`, `respond/` | serves one HTTP/2 or HTTP/3 request |
//! | file index | `files/cached.rs` | replicas of cached files, on each processor |
//! | file cache | `files/lookup.rs`, `cache.rs`, `blocks.rs` | finds a file, or a block of a large file |
//! | aggregator | `files/aggregator.rs` | a cohort operation: merges the reads of a cohort |
//! | disk | `files/disk.rs` | opens a file, or performs a merged read |
//! | upstream | `proxy/exchange.rs`, `upstream/` | forwards a request to another server, and its response to the client |
//! | slow | `files/list.rs` | reads a directory on a thread that may block |
//! | names | `upstream/lease.rs` | resolves a host name on a thread that may block |
//! | compression | `files/encodings/make.rs` | compresses a file on a thread that may block |
//! | passwords | `auth/passwords.rs` | verifies a password on a thread that may block |

#![forbid(unsafe_code)]

mod auth;
mod check;
mod clock;
mod config;
mod conn;
mod error;
mod files;
mod floods;
mod http1;
mod http2;
mod http3;
mod listing;
mod log;
mod memory;
mod metrics;
mod proxy;
mod respond;
mod serve;
mod site;
mod socket;
mod stages;
mod streams;
mod upstream;

pub use config::{
    Access, AccessLog, Acme, AcmeChallenge, Alias, Auth, CachePreset, CacheRule, Config,
    ConfigError, Cors, ForwardedField, HeaderRule, HealthCheck, HostConfig, Listen, LogFormat,
    LogTarget, MeasurementSettings, Network, Origins, PerAddress, Proxy, Redirect, RedirectStatus,
    Rewrite, RuntimeConfig, Scheme, SecurityHeaders, SendMode, Symlinks, Timeouts, Tls, TryRule,
    TypeRule, UnknownHost, Upstream,
};
pub use error::ServeError;
pub use phalanx_access::FileError;
pub use phalanx_service::{Inherited, Operator, Reload, Reloaded, Serving};
pub use phalanx_tls::CertificateError;
pub use serve::reload::Reloader;
pub use serve::{Server, operate, serve};
