//! The control stage. One operation per connection reads packets (`reader.rs`); another sends
//! (`client/sender.rs`), so that either can wait without blocking the other.
//!
//! Imports go from the top of the table to its end only.
//!
//! | file or folder | contents |
//! |---|---|
//! | `accept` | accepts connections; the TLS handshake and the WebSocket upgrade |
//! | `bridged.rs` | connections of bridges and other nodes |
//! | `reader.rs` | the reading operation, from CONNECT to the end |
//! | `connect` | CONNECT, authentication and the answer |
//! | `packets` | what the packets of an accepted client do: PUBLISH, SUBSCRIBE, AUTH |
//! | `client` | the connection of an accepted client, its sender, and its move to another processor |
//! | `batch` | the messages and acknowledgements of one read |
//! | `auth_packet.rs` | authentication methods and data in packets |
//! | `logging.rs` | events of connections for the event log |
//! | `end.rs` | the reasons for a connection's end |

pub(crate) mod accept;
mod auth_packet;
mod batch;
pub(crate) mod bridged;
mod client;
pub(crate) mod connect;
mod end;
mod logging;
mod packets;
#[cfg(test)]
mod races;
mod reader;
