//! SCRAM (RFC 5802, RFC 7677): a client proves that it knows a password without sending it.
//!
//! | file | idea |
//! |---|---|
//! | `keys.rs` | stored keys of a password, in the format of PostgreSQL |
//! | `decoys.rs` | salts for users without keys, so that an exchange does not reveal names |
//! | `messages.rs` | messages of the client |
//! | `exchange.rs` | the server's side of an exchange |

pub(crate) mod decoys;
mod exchange;
pub(crate) mod keys;
mod messages;

pub use exchange::{Exchange, Proof};
pub use keys::Mechanism;
