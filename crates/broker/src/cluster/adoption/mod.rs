//! Adoption: a node takes over the sessions of a lost node.
//!
//! L is the lost node, A the node that adopts its sessions, and P any other node that has messages for L. L's journal has
//! a lease and a stream in NATS (see `kept/mod.rs`).
//!
//! 1. All nodes read the leases every second (`watch.rs`). L's lease has expired if its message has not changed for the
//!    timeout while the reading node renewed its own lease.
//! 2. A writes into the lease that it is the reader, and reads L's stream (`adopt.rs`). L still holds the lease, because
//!    L's disk is the only copy of the sessions if no node can read the stream.
//! 3. A takes the lease. Each change of a lease names the number of the message that it replaces, so only one node
//!    succeeds. From then on no other node takes the lease unless A's own journal is adopted. So the seal of A's journal
//!    also fences the adoption: A cannot add a session after the seal in its own stream.
//! 4. A appends the *seal* to L's stream. Each append of L names the number of the preceding message, so L cannot append
//!    after the seal, and acknowledges nothing more. If the stream has grown since step 2, A reads it again.
//! 5. A adds the sessions to its own (`installing.rs`): first those that represent awaited handovers, then those of
//!    clients. A skips a session whose client already has one at A, so that the step can be repeated. The step ends when
//!    everything is on A's disk and in A's stream, and the other nodes have the filters of the sessions.
//! 6. A marks the lease as installed, deletes L's stream, and marks the lease as adopted. From then on L begins a new
//!    journal when it returns.
//! 7. Each P gets the messages that L had queued for it (`relay.rs`); A itself gets them during step 5. Then P hands over
//!    the messages that it has queued for L (`handover.rs`).
//!
//! A step that fails is repeated, by A only. If A cannot continue and has added nothing, it gives the lease back to L. If
//! A is lost, A's journal is adopted first, with the sessions that A had already added, and then L's journal. If NATS
//! loses the leases, the running nodes write them again (`leases.rs`).
//!
//! | file | contents |
//! |---|---|
//! | `leases.rs` | the leases of journals as last read, and their restoration |
//! | `watch.rs` | finds expired leases |
//! | `adopt.rs` | takes the lease, reads and seals the stream |
//! | `installing.rs` | adds the sessions to those of this node |
//! | `handover.rs` | passes the messages that nodes have queued for a lost node to its adopted sessions |
//! | `relay.rs` | passes on the messages that a lost node had queued for other nodes |

pub(super) mod adopt;
pub(super) mod handover;
pub(super) mod installing;
pub(super) mod leases;
pub(super) mod relay;
pub(super) mod watch;
