//! The cluster: the other nodes, and lanes to them over NATS.
//!
//! Each node announces itself to the others every second. Of two nodes, that with the lesser name opens a lane to the
//! other one. A lane serves the session that each has for the other (see `lane/mod.rs`). One processor serves all lanes.
//!
//! | file | contents |
//! |---|---|
//! | `node.rs` | this node, its connection to NATS, and the payloads that it sends |
//! | `other.rs` | another node: its announcement and its lane |
//! | `receiving.rs` | announcements and frames that other nodes send |
//! | `tending.rs` | lanes that end because a node is gone, and missing ones |
//! | `serving.rs` | the life of one lane |
//! | `retained.rs` | the retained messages for a node that joins |
//! | `leases.rs` | the leases of journals as last seen |
//! | `watch.rs` | finds leases that are not renewed |
//! | `adopt.rs` | adopts the sessions of a lost node |
//! | `installing.rs` | adds these sessions to those of this node |
//! | `handover.rs` | messages that nodes hold for a lost one, for its adopted sessions |
//! | `find.rs` | finds the node that has a client's session |
//! | `guard.rs` | disconnects clients when the lease runs out |
//! | `takeover.rs` | clients that connected to another node |

mod adopt;
mod find;
mod guard;
mod handover;
mod installing;
mod leases;
mod node;
mod other;
mod receiving;
mod retained;
mod serving;
mod takeover;
mod tending;
#[cfg(test)]
mod tests;
mod watch;

pub(crate) use node::serve_cluster;

/// Parts of the timeout after which a node tells that it is there, and tends its lanes.
const HELLOS: u32 = 5;
const TICKS: u32 = 25;
