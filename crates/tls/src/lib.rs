//! TLS for servers and their outgoing connections: certificates, handshakes and encrypted streams.
//!
//! | file | idea |
//! |---|---|
//! | `certificate.rs` | a certificate and its key: loading, validation, warnings |
//! | `certificates.rs` | all certificates of a server, and their reload |
//! | `names.rs` | selection of a certificate by server name |
//! | `clients.rs` | client certificates |
//! | `handshake.rs` | the handshake stage |
//! | `connector.rs` | handshakes with other servers |
//! | `authority.rs` | a host and a port |
//! | `dial.rs` | connections to other servers by name |
//! | `backoff.rs` | delays between attempts to connect |
//! | `records.rs` | boundaries of records |
//! | `session.rs` | an encrypted stream |
//! | `polled.rs` | the same for poll functions |
//! | `wire.rs` | a plain or encrypted stream |
//!
//! The server chooses the protocols offered over ALPN, and learns which one was negotiated.

#![forbid(unsafe_code)]

mod authority;
mod backoff;
mod certificate;
mod certificates;
mod clients;
mod connector;
mod dial;
mod handshake;
mod names;
mod polled;
mod records;
mod session;
mod wire;

pub use authority::Authority;
pub use backoff::Backoff;
pub use certificate::{CertificateError, Validity, check, validity, warnings};
pub use certificates::{ACME_TLS, Certificates, Replacement, Source};
pub use clients::Clients;
pub use connector::{Connector, is_server_name};
pub use dial::dial;
pub use handshake::{Profile, TlsStages};
pub use polled::PolledTls;
pub use session::{Failed, TlsStream};
pub use wire::Wire;
