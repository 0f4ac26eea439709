//! The stages: they code events, queue them at pieces, and match them there.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::time::Duration;

use phalanx::stage::{Cohort, CohortStage};
use phalanx::sync::oneshot;
use phalanx::{Call, CallError, Graph, SharedStage, Stage, join, yield_now};
use phalanx_matcher::{Event, Snapshot};

use crate::everywhere::{At, Everywhere};
use crate::local::{Local, Matched};

/// Options of the queues.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long an event may wait for others while the processor has other work. The default is one
    /// millisecond; zero never waits.
    pub age: Duration,
    /// Maximum number of waiting events per processor: 1 to 2³²−1. At the bound pieces run to make space, so
    /// no event is refused.
    pub capacity: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { age: Duration::from_millis(1), capacity: 4096 }
    }
}

/// A handle of the matching stages. `I` is the type of matched items, such as a message with its sender.
/// Invoking it outside an operation panics.
pub struct Matching<I: 'static> {
    adopt: Stage<Everywhere>,
    events: CohortStage<Item<I>, Matched<I>>,
}

impl<I> Clone for Matching<I> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I> Copy for Matching<I> {}

/// An item of the stage `events`, in order.
enum Item<I> {
    Event(I),
    /// Use this snapshot for later events, and send to the publisher once it is in use.
    Adopt(Snapshot, oneshot::LocalSender<()>),
}

/// The stages after `events`.
#[derive(Clone, Copy)]
struct PieceRunner {
    wait: SharedStage<()>,
    pieces: SharedStage<()>,
}

impl<I: 'static> Matching<I> {
    /// Declares the stages `snapshots`, `events`, `waiting` and `pieces`, next in the wavefront. `code`
    /// converts an item into an event of the given snapshot; if it panics, the call of that item fails.
    ///
    /// No event satisfies a subscription until a snapshot is [published](Self::publish).
    ///
    /// # Panics
    /// If a capacity is out of bounds.
    pub fn declare(
        graph: &mut Graph,
        options: Options,
        code: impl Fn(&I, &Snapshot) -> Event + Send + Sync + 'static,
    ) -> Self {
        let Options { age, capacity } = options;
        assert!(capacity > 0 && u32::try_from(capacity).is_ok(), "1 to 2³²−1 events may wait");
        let adopt = graph.stage("snapshots").policy(Everywhere);
        let events = graph.reserve("events");
        // At most one operation waits here; the hold length of two is never reached.
        let wait = graph.stage("waiting").hold(2, age).shared(());
        let pieces = graph.stage("pieces").shared(());
        let runner = PieceRunner { wait, pieces };
        let make = move |_| Rc::new(RefCell::new(Local::new(capacity)));
        let events = graph.declare(events).cohort(
            make,
            move |local: &mut Rc<RefCell<Local<I>>>, cohort: &mut Cohort<Item<I>, Matched<I>>| {
                let panic = enqueue(local, cohort, &code);
                runner.ensure_matched(local);
                if let Some(panic) = panic {
                    resume_unwind(panic);
                }
            },
        );
        Self { adopt, events }
    }

    /// Matches `item`. The item is queued immediately, whether or not the call is awaited. The calls of one
    /// processor are answered in order.
    pub fn call(&self, item: I) -> Call<Matched<I>> {
        self.events.call(Item::Event(item))
    }

    /// Makes all processors use `snapshot`: calls made after this future resolves are matched by it or by a
    /// later snapshot. Events that wait at pieces are matched first, with their own snapshot, so publish many
    /// changes together.
    ///
    /// All snapshots must be of one index. A processor ignores a snapshot that is older than its own.
    ///
    /// # Errors
    /// Like [`Call`]; some processors may then still use an older snapshot.
    pub async fn publish(&self, snapshot: &Snapshot) -> Result<(), CallError> {
        let At { processor, processors } = self.adopt_on(None, snapshot).await??;
        let others = (0..processors).filter(|other| *other != processor);
        let calls: Vec<_> = others.map(|other| self.adopt_on(Some(other), snapshot)).collect();
        for taken_over in join(calls).await {
            taken_over??;
        }
        Ok(())
    }

    fn adopt_on(
        &self,
        processor: Option<usize>,
        snapshot: &Snapshot,
    ) -> Call<Result<At, CallError>> {
        let (events, snapshot) = (self.events, snapshot.clone());
        self.adopt.call(processor, move |at| async move {
            let (sender, done) = oneshot::local();
            events.dispatch(Item::Adopt(snapshot, sender))?;
            done.await.map(|()| at).ok_or(CallError::Cancelled)
        })
    }
}

/// Adds a cohort of events to the queues. Returns the first panic of `code`; the other events are queued.
fn enqueue<I>(
    local: &Rc<RefCell<Local<I>>>,
    cohort: &mut Cohort<Item<I>, Matched<I>>,
    code: &impl Fn(&I, &Snapshot) -> Event,
) -> Option<Box<dyn Any + Send>> {
    let mut panic = None;
    let mut local = local.borrow_mut();
    for (item, reply) in cohort.drain() {
        match item {
            Item::Event(item) => {
                let result = catch_unwind(AssertUnwindSafe(|| local.push(item, reply, code)));
                panic = panic.or(result.err());
            }
            Item::Adopt(snapshot, sender) => {
                local.adopt(snapshot);
                sender.send(());
            }
        }
    }
    local.settle();
    panic
}

impl PieceRunner {
    /// Ensures that the queued events are matched in time.
    fn ensure_matched<I: 'static>(self, shared: &Rc<RefCell<Local<I>>>) {
        let mut local = shared.borrow_mut();
        if local.waits() && !std::mem::replace(&mut local.has_timer, true) {
            let later = shared.clone();
            let waits = self.wait.dispatch(move |_| async move {
                later.borrow_mut().mark_due();
                self.begin(&later);
            });
            if waits.is_err() {
                // The processor is full or ending: run the queues now, so that no call waits forever.
                local.has_timer = false;
                local.run_all();
            }
        }
        drop(local);
        self.begin(shared);
    }

    /// Starts an operation that runs the pieces that reached their threshold or are due.
    fn begin<I: 'static>(self, shared: &Rc<RefCell<Local<I>>>) {
        if !shared.borrow_mut().try_start() {
            return;
        }
        let local = shared.clone();
        let runs = self.pieces.dispatch(move |_| async move {
            while local.borrow_mut().run() {
                yield_now().await;
            }
        });
        if runs.is_err() {
            shared.borrow_mut().run_all();
        }
    }
}
