//! One processor's queues, and who waits for what is in them.

use std::borrow::Borrow;
use std::rc::Rc;

use phalanx::Reply;
use phalanx_matcher::{Event, Index, Queues, Snapshot, Subscription};

/// An event that has been matched.
#[derive(Debug)]
pub struct Matched<I> {
    /// What was handed over.
    pub item: I,
    /// What it satisfies: each subscription once, in no order. Their numbers are not given again as long as this
    /// lives.
    pub subscriptions: Vec<Subscription>,
    /// Keeps the numbers.
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

/// Comparisons of a line with an event after which the processor looks at its other stages: some 50 µs.
const LONG: usize = 32 * 1024;

/// A processor's part of the matching.
pub(crate) struct Local<I> {
    queues: Queues<Waiting<I>>,
    /// The queues', lent to answers.
    snapshot: Rc<Snapshot>,
    /// Whether it has come from the index, and not from here.
    published: bool,
    /// Whether an operation is there that sees to what waits.
    pub(crate) seen_to: bool,
    /// Pieces that are still to be run for what has waited long enough.
    due: usize,
    /// Whether an operation runs them.
    running: bool,
}

impl<I> Local<I> {
    /// Without subscriptions.
    pub(crate) fn new(capacity: usize) -> Self {
        let empty = Index::new(phalanx_matcher::Options::default()).snapshot();
        Self {
            queues: Queues::new(empty.clone(), capacity),
            snapshot: Rc::new(empty),
            published: false,
            seen_to: false,
            due: 0,
            running: false,
        }
    }

    /// Takes an event in, for whose matches `reply` waits.
    pub(crate) fn push(
        &mut self,
        item: I,
        reply: Reply<Matched<I>>,
        code: impl FnOnce(&I, &Snapshot) -> Event,
    ) {
        while !self.queues.has_room() {
            // As many as may wait do: room is made before more is taken in.
            self.queues.run_oldest();
            self.settle();
        }
        let event = code(&item, &self.snapshot);
        self.queues.push(Waiting { item, event, reply });
    }

    /// Goes on with a later snapshot, once all that waits has been matched by the one that coded it.
    pub(crate) fn adopt(&mut self, snapshot: Snapshot) {
        // Two writers' messages may overtake each other.
        if self.published && snapshot.version() < self.snapshot.version() {
            return;
        }
        while self.queues.run_oldest().is_some() {}
        self.settle();
        self.published = true;
        self.snapshot = Rc::new(snapshot.clone());
        self.queues.adopt(snapshot);
    }

    /// Answers what is done.
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

    /// Whether a piece is worth running.
    pub(crate) fn is_ready(&self) -> bool {
        self.queues.ready() > 0
    }

    /// What waits now has waited long enough.
    pub(crate) fn is_due(&mut self) {
        self.seen_to = false;
        self.due = self.queues.touched();
    }

    /// Whether somebody must begin to [run](Self::run); whoever asks does if so.
    pub(crate) fn begins(&mut self) -> bool {
        let begins = !self.running && (self.due > 0 || self.is_ready());
        self.running |= begins;
        begins
    }

    /// Runs pieces that are worth it, then what is due, for a while. Whether there is more.
    pub(crate) fn run(&mut self) -> bool {
        // Until all is well: where the answers' owners panic, others are to begin again.
        self.running = false;
        let (mut work, mut more) = (0, true);
        while work < LONG {
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

    /// Runs all that waits: where there is no other way to see to it.
    pub(crate) fn run_all(&mut self) {
        while self.queues.run_oldest().is_some() {}
        (self.due, self.running) = (0, false);
        self.settle();
    }
}
