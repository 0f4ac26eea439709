//! The cluster: the other nodes, and lanes to them over NATS.
//!
//! Each node announces itself to the others every second. Of two nodes, the one whose name sorts first opens a lane to
//! the other. A lane serves the sessions that the two nodes have for each other (see `lane/mod.rs`). One processor serves
//! all lanes.
//!
//! Modules import only from modules further up in the table.
//!
//! | file | contents |
//! |---|---|
//! | `intervals.rs` | intervals, as fractions of the timeout |
//! | `guard.rs` | disconnects clients when the lease expires |
//! | `peer_node.rs` | another node, with its announcement and its lane |
//! | `ending.rs` | ends the sessions of clients that connected to another node |
//! | `node.rs` | this node, its connection to NATS, and the payloads that it sends |
//! | `adoption/` | takes over the sessions of a lost node, with the messages that other nodes have for them |
//! | `takeover.rs` | announces clients that connected here, and receives the announcements of other nodes |
//! | `session_query.rs` | asks all nodes for their copies of sessions |
//! | `moving/` | moves a session to the node where its client connects |
//! | `find.rs` | finds the node that has a client's session |
//! | `serving/` | the life of one lane: the exchanges at its start and afterwards |
//! | `incoming.rs` | announcements and frames that other nodes send |
//! | `lane_check.rs` | closes the lanes of nodes that are lost, and opens missing lanes |
//! | `run.rs` | runs this node from its start to its shutdown |

mod adoption;
mod ending;
mod find;
mod guard;
mod incoming;
mod intervals;
mod lane_check;
mod moving;
mod node;
mod peer_node;
mod run;
mod serving;
mod session_query;
mod takeover;
#[cfg(test)]
mod tests;

pub(crate) use run::serve_cluster;
