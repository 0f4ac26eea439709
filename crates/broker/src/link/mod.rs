//! The connection of a bridge to a remote broker. It is the transport of the bridge's session.
//!
//! The session of a bridge is served like that of a client: the reader reads packets from the remote broker, and the
//! sender writes packets to it. The link rewrites the topics and properties of messages, and handles the packets that
//! only a server sends. Packet identifiers pass unchanged. So an acknowledgement from the remote broker acknowledges the
//! session's message, and each side's flow control limits the other.
//!
//! | file | contents |
//! |---|---|
//! | `topics.rs` | maps topics between this broker and the remote one |
//! | `aliases.rs` | topic aliases in both directions |
//! | `via.rs` | records the path of brokers, to detect loops |
//! | `keep_alive.rs` | when to ping, and when the remote broker is gone |
//! | `answer_deadline.rs` | the deadline of an answer |
//! | `releases.rs` | releases QoS 2 messages of an earlier session |
//! | `stream.rs` | the transport |
//! | `incoming.rs` | packets from the remote broker |
//! | `outgoing.rs` | packets to the remote broker |
//! | `status.rs` | the state of a bridge |
//! | `registry.rs` | all bridges, and their shared state |

mod aliases;
mod answer_deadline;
mod incoming;
mod keep_alive;
mod outgoing;
pub(crate) mod registry;
mod releases;
pub(crate) mod status;
mod stream;
pub(crate) mod topics;
mod via;

pub(crate) use releases::Unreleased;
pub(crate) use stream::{Link, LinkOptions};
