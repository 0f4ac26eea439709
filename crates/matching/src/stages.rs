//! The stages: events are taken in and coded, wait at pieces, and are matched there.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::time::Duration;

use phalanx::{
    Call, CallError, Cohort, CohortStage, Graph, SharedStage, Stage, Trigger, event, join,
    yield_now,
};
use phalanx_matcher::{Event, Snapshot};

use crate::everywhere::{At, Everywhere};
use crate::local::{Local, Matched};

/// How events wait.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long an event may wait for others while the processor has other work. A millisecond is the default;
    /// zero never waits.
    pub age: Duration,
    /// Events of one processor that may wait at a time: 1 to 2³²−1. Beyond it pieces are run to make room, so
    /// nothing is refused.
    pub capacity: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { age: Duration::from_millis(1), capacity: 4096 }
    }
}

/// A handle on the stages that match events. What is matched is an `I`, such as a message with its sender;
/// invoking from outside an operation panics.
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

/// What comes to the stage of events, in order.
enum Item<I> {
    Event(I),
    /// From now on; the trigger says when.
    Adopt(Snapshot, Trigger<()>),
}

/// The stages behind that of events.
#[derive(Clone, Copy)]
struct Behind {
    wait: SharedStage<()>,
    pieces: SharedStage<()>,
}

impl<I: 'static> Matching<I> {
    /// Declares the stages `snapshots`, `events`, `waiting` and `pieces`, next in the wavefront. `code` makes an
    /// item an event of the snapshot that it is given; a panic in it fails that item's call.
    ///
    /// Until a snapshot is [published](Self::publish) no event satisfies anything.
    ///
    /// # Panics
    /// If a capacity is out of its bounds.
    pub fn declare(
        graph: &mut Graph,
        options: Options,
        code: impl Fn(&I, &Snapshot) -> Event + Send + Sync + 'static,
    ) -> Self {
        let Options { age, capacity } = options;
        assert!(capacity > 0 && u32::try_from(capacity).is_ok(), "1 to 2³²−1 events may wait");
        let adopt = graph.stage("snapshots").policy(Everywhere);
        let events = graph.keep("events");
        // Only one operation ever waits here; two is what it waits for in vain.
        let wait = graph.stage("waiting").hold(2, age).shared(());
        let pieces = graph.stage("pieces").shared(());
        let behind = Behind { wait, pieces };
        let make = move |_| Rc::new(RefCell::new(Local::new(capacity)));
        let events = graph.stage_at(events).in_order().cohort(
            make,
            move |local: &mut Rc<RefCell<Local<I>>>, cohort: &mut Cohort<Item<I>, Matched<I>>| {
                let panic = take_in(local, cohort, &code);
                behind.see_to(local);
                if let Some(panic) = panic {
                    resume_unwind(panic);
                }
            },
        );
        Self { adopt, events }
    }

    /// Matches `item`. It is queued at once, whether or not the call is awaited, and the calls of one processor
    /// are answered in their order.
    pub fn call(&self, item: I) -> Call<Matched<I>> {
        self.events.call(Item::Event(item))
    }

    /// Has all processors go on with `snapshot`: what is called after this has resolved is matched by it, or by
    /// a later one. Events that wait at pieces are matched first, by the snapshot that they came under, so publish
    /// the changes of a cohort together where there are many.
    ///
    /// All snapshots are of one index. One that is older than what a processor has is passed over.
    ///
    /// # Errors
    /// As [`Call`]; then some processors have not taken it over.
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
            let (taken, over) = event();
            events.dispatch(Item::Adopt(snapshot, taken))?;
            over.await.map(|()| at).ok_or(CallError::Ended)
        })
    }
}

/// A cohort of events comes to the queues. Returns the first panic of `code`: the others' events are in.
fn take_in<I>(
    local: &Rc<RefCell<Local<I>>>,
    cohort: &mut Cohort<Item<I>, Matched<I>>,
    code: &impl Fn(&I, &Snapshot) -> Event,
) -> Option<Box<dyn Any + Send>> {
    let mut panic = None;
    let mut local = local.borrow_mut();
    for (item, reply) in cohort.drain() {
        match item {
            Item::Event(item) => {
                let taken = catch_unwind(AssertUnwindSafe(|| local.push(item, reply, code)));
                panic = panic.or(taken.err());
            }
            Item::Adopt(snapshot, taken) => {
                local.adopt(snapshot);
                taken.fire(());
            }
        }
    }
    local.settle();
    panic
}

impl Behind {
    /// Has what is in the queues run in time.
    fn see_to<I: 'static>(self, shared: &Rc<RefCell<Local<I>>>) {
        let mut local = shared.borrow_mut();
        if local.waits() && !std::mem::replace(&mut local.seen_to, true) {
            let later = shared.clone();
            let waits = self.wait.dispatch(move |_| async move {
                later.borrow_mut().is_due();
                self.begin(&later);
            });
            if waits.is_err() {
                // The processor is full, or ends: nobody shall wait in vain.
                local.seen_to = false;
                local.run_all();
            }
        }
        drop(local);
        self.begin(shared);
    }

    /// Has the pieces run that are worth it, or due.
    fn begin<I: 'static>(self, shared: &Rc<RefCell<Local<I>>>) {
        if !shared.borrow_mut().begins() {
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
