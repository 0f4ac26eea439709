//! The cluster: the other nodes, and lanes to them over NATS.
//!
//! Each node announces itself to the others every second. Of two nodes, that with the lesser name opens a lane to the
//! other one. A lane serves the session that each has for the other (see `lane/mod.rs`). One processor serves all lanes.
//!
//! | file | contents |
//! |---|---|
//! | `node.rs` | this node: NATS, the other nodes, and what arrives from them |
//! | `serving.rs` | the life of one lane |
//! | `retained.rs` | the retained messages for a node that joins |
//! | `takeover.rs` | clients that connected to another node |

mod node;
mod retained;
mod serving;
mod takeover;

pub(crate) use node::serve_cluster;
