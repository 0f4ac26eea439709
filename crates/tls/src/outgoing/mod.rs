//! Connections to other servers.
//!
//! | file | contents |
//! |---|---|
//! | `dial.rs` | connections by name |
//! | `connector.rs` | the handshake |
//! | `verifier.rs` | the verification of a server's certificate |
//! | `authority.rs` | a host and a port |
//! | `backoff.rs` | delays between attempts |

pub(crate) mod authority;
pub(crate) mod backoff;
pub(crate) mod connector;
pub(crate) mod dial;
mod verifier;
