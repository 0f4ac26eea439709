//! The queues of one processor, and the replies owed for their events.

use std::borrow::Borrow;
use std::rc::Rc;

use phalanx::task::Reply;
use phalanx_matcher::{Event, Index, Queues, Snapshot, Subscription};

/// A matched event.
#[derive(Debug)]
pub struct Matched<I> {
    /// The item that was passed to the call.
    pub item: I,
    /// The subscriptions that the event satisfies, without duplicates and in no order. Their numbers are not
    /// reused while this value exists.
    pub subscriptions: Vec<Subscription>,
    /// Keeps the numbers from being reused.
    _snapshot: Rc<Snapshot>,
}

/// An event in the queues.
struct Waiting<I> {
    item: I,
    event: Event,
    reply: Reply<Matched<I>>,
}

impl<I> Borrow<Event> for Waiting<I> {
    fn borrow(&self) -> &Event {
        &self.event
    }
}

/// Number of comparisons of a line with an event, about 50 µs, after which the processor visits its other
/// stages.
const MAX_COMPARISONS: usize = 32 * 1024;

/// The state of the matching stages on one processor.
pub(crate) struct Local<I> {
    queues: Queues<Waiting<I>>,
    /// The snapshot of the queues, shared with answers.
    snapshot: Rc<Snapshot>,
    /// Whether it was published, and is not the initial empty one.
    published: bool,
    /// Whether an operation waits to run the queues in time.
    pub(crate) has_timer: bool,
    /// Number of pieces still to run for events that have waited long enough.
    due: usize,
    /// Whether an operation runs pieces.
    running: bool,
}

impl<I> Local<I> {
    /// The state before the first snapshot: no subscriptions.
    pub(crate) fn new(capacity: usize) -> Self {
        let empty = Index::new(phalanx_matcher::Options::default()).snapshot();
        Self {
            queues: Queues::new(empty.clone(), capacity),
            snapshot: Rc::new(empty),
            published: false,
            has_timer: false,
            due: 0,
            running: false,
        }
    }

    /// Queues an event; `reply` receives its matches.
    pub(crate) fn push(
        &mut self,
        item: I,
        reply: Reply<Matched<I>>,
        code: impl FnOnce(&I, &Snapshot) -> Event,
    ) {
        while !self.queues.has_room() {
            // The queues are full: runs a piece to make space.
            self.queues.run_oldest();
            self.settle();
        }
        let event = code(&item, &self.snapshot);
        self.queues.push(Waiting { item, event, reply });
    }

    /// Replaces the snapshot after matching all waiting events with the old one.
    pub(crate) fn adopt(&mut self, snapshot: Snapshot) {
        // Messages of two writers may arrive in the wrong order.
        if self.published && snapshot.version() < self.snapshot.version() {
            return;
        }
        while self.queues.run_oldest().is_some() {}
        self.settle();
        self.published = true;
        self.snapshot = Rc::new(snapshot.clone());
        self.queues.adopt(snapshot);
    }

    /// Answers the finished events.
    pub(crate) fn settle(&mut self) {
        let Self { queues, snapshot, .. } = self;
        queues.settle(|Waiting { item, reply, .. }, found| {
            let subscriptions = std::mem::take(found);
            reply.send(Matched { item, subscriptions, _snapshot: snapshot.clone() });
        });
    }

    /// Whether an event waits at some piece.
    pub(crate) fn waits(&self) -> bool {
        self.queues.touched() > 0
    }

    /// Whether a piece reached its threshold.
    pub(crate) fn is_ready(&self) -> bool {
        self.queues.ready() > 0
    }

    /// Marks all waiting events as due.
    pub(crate) fn mark_due(&mut self) {
        self.has_timer = false;
        self.due = self.queues.touched();
    }

    /// Whether an operation must start to [run](Self::run); the caller must start it if so.
    pub(crate) fn try_start(&mut self) -> bool {
        let is_starting = !self.running && (self.due > 0 || self.is_ready());
        self.running |= is_starting;
        is_starting
    }

    /// Runs pieces that reached their threshold, then the due ones, for a limited time. Returns whether work
    /// remains.
    pub(crate) fn run(&mut self) -> bool {
        // Cleared first: if a reply's owner panics, another operation must be able to start.
        self.running = false;
        let (mut work, mut more) = (0, true);
        while work < MAX_COMPARISONS {
            if let Some(compared) = self.queues.run_ready() {
                work += compared;
                continue;
            }
            let oldest = if self.due > 0 { self.queues.run_oldest() } else { None };
            let Some(compared) = oldest else {
                (self.due, more) = (0, false);
                break;
            };
            self.due -= 1;
            work += compared;
        }
        self.settle();
        self.running = more;
        more
    }

    /// Runs all waiting pieces, if no operation can be started for it.
    pub(crate) fn run_all(&mut self) {
        while self.queues.run_oldest().is_some() {}
        (self.due, self.running) = (0, false);
        self.settle();
    }
}
