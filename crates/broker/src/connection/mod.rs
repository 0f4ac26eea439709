//! The control stage. One operation per connection reads packets (`reader.rs`); another sends (`sender.rs`),
//! so that either can wait without blocking the other.
//!
//! | file | contents |
//! |---|---|
//! | `accept.rs` | accepts connections |
//! | `handshake.rs` | the TLS handshake and the WebSocket upgrade |
//! | `connect.rs` | CONNECT and its answer |
//! | `kept_session.rs` | clients whose session another node may have |
//! | `refusal.rs` | rejected CONNECTs |
//! | `authenticate.rs` | authentication, also by AUTH |
//! | `client.rs` | the connection of an accepted client |
//! | `reader.rs` | the listening operation |
//! | `batch.rs` | the messages and acknowledgements of one read |
//! | `publishing.rs`, `publish.rs` | PUBLISH: the messages of one read; routing and acknowledging them |
//! | `permission.rs` | waits for decisions about topics |
//! | `subscribing.rs` | SUBSCRIBE and UNSUBSCRIBE |
//! | `sender.rs` | the sending operation |
//! | `moving.rs` | the way to another processor |
//! | `end.rs` | the reasons for a connection's end |
//! | `logging.rs` | events of connections for the event log |

pub(crate) mod accept;
mod authenticate;
mod batch;
pub(crate) mod bridged;
mod client;
mod connect;
mod end;
mod handshake;
mod kept_session;
mod logging;
mod moving;
mod permission;
mod publish;
mod publishing;
#[cfg(test)]
mod races;
mod reader;
mod refusal;
mod sender;
mod subscribing;
