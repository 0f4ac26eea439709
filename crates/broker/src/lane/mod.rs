//! A lane: the connection to another node of the cluster. It is the transport of this node's session for that node.
//!
//! Each of two nodes is a client of the other, and has a session for it. A lane carries MQTT packets in both directions:
//! messages and acknowledgements of the sessions, and SUBSCRIBE and UNSUBSCRIBE for the filters that a node announces. A
//! node processes these like the packets of any client. The lane itself processes the packets that only servers send.
//!
//! NATS may lose data, so each direction is a numbered stream of bytes. If bytes are missing, the lane ends, another one
//! begins, and the sessions retransmit the unacknowledged messages.
//!
//! | file | contents |
//! |---|---|
//! | `frame.rs` | frames exchanged by nodes |
//! | `stream.rs` | the state of a lane |
//! | `window.rs` | byte offsets and flow control |
//! | `transport.rs` | reads and writes packets |
//! | `announcing.rs` | SUBSCRIBE and UNSUBSCRIBE for announced filters |
//! | `members.rs` | announces the online members of shared subscriptions |

mod announcing;
pub(crate) mod frame;
mod members;
mod stream;
mod transport;
mod window;

pub(crate) use stream::{Lane, LaneOptions, Sent};
