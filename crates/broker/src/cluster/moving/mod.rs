//! Moves a kept session from the node that has it to the node where its client connects.
//!
//! H is the node that holds the session, N is the new node, X is any other node, and P is any of the three. Messages from P
//! reach sessions at other nodes over P's lanes, in the order in which P's router routed them.
//!
//! 1. N finds out that H has the session (`find.rs`) and asks H to let it *leave*. H disconnects the client and returns the
//!    session's subscriptions. H keeps queueing messages for the session; if the client connects to H again, the session
//!    stays. H waits until the client's QoS 2 messages have been routed, so that none of them follows H's mark (step 3).
//! 2. N adds a copy of the session with its subscriptions and without messages. The copy *arrives*: no client may use it. It
//!    is in N's journal, but a restart or an adoption drops it. N waits until all nodes know its filters. From then on, H and
//!    N both queue each message for the session.
//! 3. N asks H to *cut*. At one moment, H's router puts a mark (`Cut`) into the session's queue and into its lanes to all
//!    other nodes. When H's mark reaches N or X, their routers put marks of their own into their lanes to H and to N, and N's
//!    router puts one into the copy's queue. Both queues receive the marks. A message from P is therefore ahead of P's mark
//!    in both queues, or behind it in both. Only the first mark of a node counts; a repeated one changes nothing. A queue takes
//!    no mark of another move: the router may have sent it just before that move ended. H waits with its marks until it has
//!    handed over its messages for adopted journals. A node that an operator has given up by deleting its lease gets no
//!    mark, although H has messages for it until its session expires. While a node relays messages of a lost node
//!    (`adoption/relay.rs`), its marks follow them.
//! 4. H waits until its queue has the marks of all nodes whose journals are not adopted. Then the queue has all messages that
//!    were routed before a mark, and X has routed everything that H sent it before: messages of a publisher that moves stay
//!    in order. H records that the session is *given* and sends its state up to the marks: unfinished messages, packet
//!    identifiers received, and the queue. H keeps queueing.
//! 5. N waits for the marks of the same nodes. It removes the messages ahead of the marks from the copy, puts H's state in
//!    their place, and records that the session is N's, with one move more than H's. When that record is on N's disk and in
//!    its stream in NATS, N lets the client in and announces a claim (`takeover.rs`), upon which H ends its copy.
//!
//! H has the complete session until the end of step 5. If N gives up, which it does after half of the timeout, it removes its
//! copy and tells H, whose session continues without the marks. Steps are requests over NATS. N repeats them until they are
//! answered. Each carries the move's token, so that a late answer is recognized and ignored.
//!
//! If H has given a session and hears no claim for half of the timeout, it asks all nodes (`undecided.rs`). The same happens
//! after a restart of H, and at a node that has adopted H's journal. If a node has a copy that has moved more often, H ends
//! its own. If all nodes answer, and none has such a copy or one that arrives, the session is H's again: a copy that does not
//! exist by then cannot arrive later. A node answers "arrives" also if the copy has arrived and the record is not on disk
//! yet. Because a question may reach N before the copy exists there, and H after it has ended its own copy, H remembers for
//! half of the timeout that it gave the session.
//!
//! While a session is given, H does not repeat the claim of its client, and only a later claim ends H's copy. H tells N the
//! latest claim that it knows, and N's claim is later than that one.
//!
//! | what is lost | consequence |
//! |---|---|
//! | a request or an answer | it is repeated |
//! | a lane | the next lane sends messages and marks again, in order. A QoS 1 message that arrives again behind a mark is delivered twice, which QoS 1 allows. Or N gives up |
//! | space in a journal | a node refuses a message and the mark behind it together; both are sent again |
//! | N before the end of step 5 | N drops the copy when it restarts, as does a node that adopts N's journal; the session is H's again |
//! | N after step 5 | the session is in N's journal; H ends its copy |
//! | H before step 4 is recorded | N gives up; H's session continues when H restarts or is adopted |
//! | H after that | N has the state or gives up; H, or the node that adopts its journal, asks all nodes |
//! | X | N gives up. The queues are joined within half of the timeout, and a journal is adopted no earlier than the timeout after its node's last message, so the nodes that take part do not change after the first mark |
//!
//! N begins no move, and completes none, while its journal is full or late: the session is of more use at H.
//!
//! A session with shared subscriptions does not move: H and N would both be members of the group, and a message given to the
//! copy would be lost if N gave up. A session that waits for messages of a lost node does not move either.
//!
//! | file | contents |
//! |---|---|
//! | `requests.rs` | requests and answers between nodes |
//! | `leaving.rs` | the side of H |
//! | `arriving.rs` | the side of N |
//! | `undecided.rs` | sessions that were given to a node that may be lost |

pub(in crate::cluster) mod arriving;
pub(in crate::cluster) mod leaving;
mod requests;
pub(in crate::cluster) mod undecided;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::access::Identity;
use crate::cluster::moving::leaving::Leaving;
use crate::cluster::moving::requests::Calls;

/// First interval at which a node polls for the marks and the filters of other nodes.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Maximum interval at which a node polls for marks, or repeats a request that the holder cannot fulfil yet. A poll for
/// marks searches the session's queue.
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(32);

/// The interval after a poll that found nothing.
fn next_interval(interval: Duration) -> Duration {
    (interval * 5 / 4).min(MAX_POLL_INTERVAL)
}

/// The moves from and to this node.
#[derive(Default)]
pub(in crate::cluster) struct Moves {
    /// The number of moves to this node so far.
    count: Cell<u64>,
    calls: Calls,
    leaving: RefCell<BTreeMap<Arc<str>, Rc<Leaving>>>,
    arriving: RefCell<HashSet<Identity>>,
}
