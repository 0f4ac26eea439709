//! A lane: the connection to another node of the cluster, as a transport of that node's session here.
//!
//! Both nodes have a session for each other, and forward what the other one sends: each is a client of the other. A
//! lane carries their packets of MQTT in both directions: messages and acknowledgements of the sessions, and SUBSCRIBE
//! and UNSUBSCRIBE of the filters that a node announces. A node answers those like any client's. The lane itself
//! handles what only servers send.
//!
//! NATS may lose data, so each direction is a numbered stream of bytes. If some are missing the lane ends, the next one
//! begins, and the sessions send again what was not acknowledged.
//!
//! | file | contents |
//! |---|---|
//! | `frame.rs` | frames exchanged by nodes |
//! | `stream.rs` | a lane: its properties, its state and its end |
//! | `window.rs` | the numbers and the window of its data |
//! | `transport.rs` | packets from the other node, and to it |
//! | `announcing.rs` | SUBSCRIBE and UNSUBSCRIBE of announced filters |
//! | `members.rs` | the members of shared subscriptions that are online |

mod announcing;
pub(crate) mod frame;
mod members;
mod stream;
mod transport;
mod window;

pub(crate) use stream::{Lane, LaneOptions, Sent};
