//! The control stage. One operation per connection reads packets (`reader.rs`); another sends
//! (`client/sender.rs`), so that either can wait without blocking the other.
//!
//! Modules import only from modules further down in the table.
//!
//! | file or folder | contents |
//! |---|---|
//! | `accept` | accepts connections; the TLS handshake and the WebSocket upgrade |
//! | `bridged.rs` | connections of bridges and other nodes |
//! | `reader.rs` | the reading operation, from CONNECT to the end of the connection |
//! | `connect` | CONNECT, authentication and CONNACK |
//! | `packets` | processes the packets of an accepted client: PUBLISH, SUBSCRIBE, AUTH |
//! | `client` | the connection of an accepted client, its sender, and its move to another processor |
//! | `batch` | the messages and acknowledgements of one read |
//! | `auth_packet.rs` | authentication methods and data in packets |
//! | `logging.rs` | logs events of connections |
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
