//! TLS for servers: which certificates there are, and the way from a socket to a connection that is sealed.
//!
//! | file | idea |
//! |---|---|
//! | `certificate.rs` | one certificate and its key: read, checked, doubted |
//! | `certificates.rs` | all certificates of a server, and their reload |
//! | `names.rs` | from the name that a client asks for to a certificate |
//! | `clients.rs` | clients with certificates of their own |
//! | `handshake.rs` | the stage in which hands are shaken |
//! | `session.rs` | a connection that is sealed |
//!
//! What is spoken within TLS is the server's own business: it names its protocols, and is told which was agreed on.

#![forbid(unsafe_code)]

mod certificate;
mod certificates;
mod clients;
mod handshake;
mod names;
mod session;

pub use certificate::{CertificateError, check, warnings};
pub use certificates::{Certificates, Source};
pub use clients::Clients;
pub use handshake::TlsStages;
pub use session::{Failed, TlsStream};
