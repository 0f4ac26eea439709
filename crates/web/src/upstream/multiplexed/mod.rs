//! Connections with HTTP/2, each of which many requests use.
//!
//! | file | idea |
//! |---|---|
//! | `connect.rs` | dialling, and the start of the protocol |
//! | `connection.rs` | a connection, and the use that a request makes of it |
//! | `connections.rs` | a processor's connections to one server |

mod connect;
mod connection;
mod connections;

pub(super) use connect::{connect, error};
pub(crate) use connection::Claim;
pub(super) use connection::Dial;
pub(super) use connections::Connections;
