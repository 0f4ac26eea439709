//! Adoption: the sessions of a lost node become this node's.
//!
//! L is the lost node, A the node that adopts its sessions, and P any other node that has messages for L. L's journal has
//! a lease and a stream in NATS (see `kept/mod.rs`).
//!
//! 1. All nodes look at the leases every second (`watch.rs`). The lease of L has expired if its message has not changed for
//!    the timeout while the looking node renewed its own lease.
//! 2. A shows in the lease that it reads, and reads L's stream (`adopt.rs`). L still has the lease: if no node can read the
//!    stream, only L's disk has the sessions.
//! 3. A takes the lease. Each change of a lease names the number of the message that it replaces, so only one node succeeds.
//!    From then on no other node takes it as long as A's own journal is not adopted. So the fence of the adoption is that of
//!    A's journal: a session that A adds after the seal in its own stream is added nowhere.
//! 4. A appends the *seal* to L's stream. Each append of L names the number of the message before it, so L cannot append
//!    after the seal, and acknowledges nothing more. If the stream has more than was read in step 2, A reads it again.
//! 5. A adds the sessions to its own (`installing.rs`): first those that stand for awaited handovers, then those of clients.
//!    A session whose client has one here already is left out, so that the step can be repeated. The step ends when all is
//!    on A's disk and in A's stream, and the other nodes have the filters of the sessions.
//! 6. A shows in the lease that the sessions are installed, deletes L's stream, and shows that L's journal is adopted. From
//!    then on L, when it returns, begins another journal.
//! 7. Each P gets the messages that L had queued for it (`relay.rs`), A during step 5. Then it hands over the messages that it
//!    has queued for L (`handover.rs`).
//!
//! A step that fails is repeated, by A only. An A that has added nothing and cannot go on gives the lease back to L. If A
//! is lost, its own journal is adopted first, with the sessions that it had already added, and then that of L. If NATS
//! loses the leases, living nodes write them again (`leases.rs`).
//!
//! | file | contents |
//! |---|---|
//! | `leases.rs` | the leases of journals as last seen |
//! | `watch.rs` | finds leases that are not renewed |
//! | `adopt.rs` | takes the lease, reads and seals the stream |
//! | `installing.rs` | adds the sessions to those of this node |
//! | `handover.rs` | messages that nodes hold for a lost one, for its adopted sessions |
//! | `relay.rs` | messages that a lost node had queued for other nodes |

pub(super) mod adopt;
pub(super) mod handover;
pub(super) mod installing;
pub(super) mod leases;
pub(super) mod relay;
pub(super) mod watch;
