//! TLS: which certificates there are, and the way from a socket to a connection that is sealed.
//!
//! | file | idea |
//! |---|---|
//! | `certificate.rs` | one certificate and its key: read, checked, doubted |
//! | `certificates.rs` | all hosts' certificates, and their reload |
//! | `names.rs` | from the name that a client asks for to a certificate |
//! | `handshake.rs` | the stage in which hands are shaken |
//! | `session.rs` | a connection that is sealed |

pub(crate) mod certificate;
pub(crate) mod certificates;
pub(crate) mod handshake;
mod names;
pub(crate) mod session;
