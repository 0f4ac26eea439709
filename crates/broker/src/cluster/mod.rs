//! The cluster: the other nodes, and lanes to them over NATS.
//!
//! Each node announces itself to the others every second. Of two nodes, that with the lesser name opens a lane to the
//! other one. A lane serves the session that each has for the other (see `lane/mod.rs`). One processor serves all lanes.
//!
//! Imports go from the end of the table to its top only.
//!
//! | file | contents |
//! |---|---|
//! | `intervals.rs` | intervals, as parts of the timeout |
//! | `guard.rs` | disconnects clients when the lease runs out |
//! | `other.rs` | another node: its announcement and its lane |
//! | `ending.rs` | ends the sessions of clients that connected to another node |
//! | `node.rs` | this node, its connection to NATS, and the payloads that it sends |
//! | `adoption/` | the sessions of a lost node become this node's, with the messages that wait for them elsewhere |
//! | `retained.rs` | the retained messages for a node that joins |
//! | `takeover.rs` | announces clients that connected here, and receives the announcements of other nodes |
//! | `asking.rs` | asks all nodes for their copies of sessions |
//! | `moving/` | a session moves to the node where its client connects |
//! | `find.rs` | finds the node that has a client's session |
//! | `serving.rs` | the life of one lane |
//! | `receiving.rs` | announcements and frames that other nodes send |
//! | `members.rs` | the members of shared subscriptions that are online, to and from the other nodes |
//! | `tending.rs` | lanes that end because a node is gone, and missing ones |
//! | `running.rs` | this node from its start to its shutdown |

mod adoption;
mod asking;
mod ending;
mod find;
mod guard;
mod intervals;
mod members;
mod moving;
mod node;
mod other;
mod receiving;
mod retained;
mod running;
mod serving;
mod takeover;
mod tending;
#[cfg(test)]
mod tests;

pub(crate) use running::serve_cluster;
