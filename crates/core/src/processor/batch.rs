//! Cohort operations: stages whose handler is given the whole cohort as a slice.
//!
//! What is invoked is not code but an *item*. It lies in a slot and waits in the stage's queue as
//! any operation does, so that policy, order, bounds, sessions and counters are the same. When the
//! stage runs, the cohort's items are moved into one vector, and the handler, which is the stage's,
//! is called once.
//!
//! # Safety
//! The queue of a stage that has a [`Batch`] holds slots of that stage's handles alone (`stage.rs`:
//! a key is of the declaration that made the handle, and so are the types). They were filled by
//! `place_item` with `Item<I, O>`, which their life, `Unstarted`, says to be alive; taking the item
//! out leaves the [`Owed`] at the payload's start, and the life says so.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use crate::error::{CallError, Refused};
use crate::future::call::Call;
use crate::future::reply::Reply;
use crate::handle::handles::Invocation;
use crate::metrics::watch::{Site, plain};
use crate::operation::slot::{
    ENDED, HELD, Life, NO_SESSION, QUEUED, RemoteVTable, Serial, Slot, VTable, output_drop,
};
use crate::processor::notify::{contain, discard_panic};
use crate::processor::processor::{LocalStage, Processor};
use crate::processor::remote::call::{Owed, item_parcel_vtable, receive};
use crate::processor::tally::{Tally, bump};
use crate::program::operation_sizes::Bytes;
use crate::queue::local::Order;

/// Run when a cohort of a stage has ended, and where it was declared.
pub(crate) type EndOfCohort = (Arc<dyn Fn() + Send + Sync>, Site);

/// One item of a [`Cohort`].
pub struct Entry<I, O> {
    /// What the caller handed over.
    pub item: I,
    reply: Option<Reply<O>>,
}

impl<I, O> Entry<I, O> {
    /// Answers the caller.
    ///
    /// # Panics
    /// If the reply was given or taken before.
    pub fn reply(&mut self, value: O) {
        self.take_reply().send(value);
    }

    /// Takes the reply out, to be given later.
    ///
    /// # Panics
    /// If the reply was given or taken before.
    pub fn take_reply(&mut self) -> Reply<O> {
        self.reply.take().expect("an item is answered once")
    }
}

/// The items that a cohort operation is given: a slice of them, in the order of the queue. What is
/// left in it when the handler returns is dropped, and the callers that were not answered are told
/// [`CallError::Unanswered`].
pub struct Cohort<I, O>(Vec<Entry<I, O>>);

impl<I, O> Cohort<I, O> {
    /// Takes all entries out, each an item and its reply.
    ///
    /// # Panics
    /// On reaching an entry whose reply was given or taken before.
    pub fn drain(&mut self) -> impl Iterator<Item = (I, Reply<O>)> {
        self.0.drain(..).map(|mut entry| {
            let reply = entry.take_reply();
            (entry.item, reply)
        })
    }
}

impl<I, O> Cohort<I, O> {
    /// All entries, for code that outlives the handler's call.
    pub(crate) fn take_all(&mut self) -> Self {
        Self(std::mem::take(&mut self.0))
    }
}

impl<I, O> Deref for Cohort<I, O> {
    type Target = [Entry<I, O>];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<I, O> DerefMut for Cohort<I, O> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

/// A stage's handler on one processor, as [`Processor::run_batch`] sees it.
pub(crate) trait Batch {
    /// Moves the item of `slot` to the end of the cohort.
    ///
    /// # Safety
    /// The slot came out of the queue of this batch's stage and is `Unstarted`.
    unsafe fn take(&self, processor: &Processor, slot: Slot);
    /// Calls the handler. May unwind.
    fn handle(&self);
    /// Drops what is left.
    fn clear(&self);
    /// Whether a cohort is under way, and no other may begin.
    fn is_busy(&self) -> bool;
}

/// The handler with the state that it closes over, and the vector that is used again.
pub(crate) struct LocalBatch<I, O> {
    cohort: RefCell<Cohort<I, O>>,
    handle: Handle<I, O>,
    /// Set while a cohort is under way, where cohorts are served one at a time.
    busy: Option<Rc<Cell<bool>>>,
}

/// A handler that has its state.
type Handle<I, O> = Box<dyn Fn(&mut Cohort<I, O>)>;

impl<I: 'static, O: 'static> LocalBatch<I, O> {
    pub(crate) fn new(handle: impl Fn(&mut Cohort<I, O>) + 'static) -> Self {
        let cohort = RefCell::new(Cohort(Vec::new()));
        Self { cohort, handle: Box::new(handle), busy: None }
    }

    /// Has no cohort begin while `busy` is set.
    pub(crate) fn busy_while(mut self, busy: Rc<Cell<bool>>) -> Self {
        self.busy = Some(busy);
        self
    }
}

impl<I: 'static, O: 'static> Batch for LocalBatch<I, O> {
    unsafe fn take(&self, processor: &Processor, slot: Slot) {
        let payload: *mut Item<I, O> = slot.payload();
        slot.life.set(Life::Taken);
        // SAFETY: an item of these types was alive (top of the file), and is read once; what is
        // owed stays.
        let (item, reply) =
            unsafe { ((&raw const (*payload).item).read(), Reply::new(processor, slot)) };
        self.cohort.borrow_mut().0.push(Entry { item, reply: Some(reply) });
    }

    fn handle(&self) {
        (self.handle)(&mut self.cohort.borrow_mut());
    }

    fn is_busy(&self) -> bool {
        self.busy.as_ref().is_some_and(|busy| busy.get())
    }

    fn clear(&self) {
        loop {
            let entry = self.cohort.borrow_mut().0.pop();
            let Some(entry) = entry else { break };
            contain(|| drop(entry));
        }
    }
}

/// What a slot holds until its item is taken. `repr(C)`: what is owed lies at the start.
#[repr(C)]
struct Item<I, O> {
    owed: Owed<O>,
    item: I,
}

const fn item_vtable<I: 'static, O: 'static>() -> &'static VTable {
    const {
        &VTable {
            poll: |_, _| unreachable!("items are handled, not polled"),
            drop_work: drop_item::<I, O>,
            drop_output: output_drop::<O>(),
            operation: std::any::type_name::<I>,
            bytes: Bytes::of::<Item<I, O>, (), O>(),
            remote: RemoteVTable::NONE,
        }
    }
}

unsafe fn drop_item<I, O>(slot: Slot) {
    let item: *mut Item<I, O> = slot.payload();
    // SAFETY: life says what is alive, and is changed before the drop, which may unwind.
    unsafe {
        match slot.life.replace(Life::Empty) {
            Life::Unstarted => item.drop_in_place(),
            _ => (&raw mut (*item).owed).drop_in_place(),
        }
    }
}

/// A parcel with an item has arrived.
unsafe fn take_up_item<I: Send + 'static, O: Send + 'static>(
    slot: Slot,
    processor: &Processor,
) -> Option<Slot> {
    // SAFETY: parcels with this vtable hold an `I` for an `O`, and the stage is that of the handle
    // which the parcel was sent with.
    unsafe {
        receive::<I, O>(slot, processor, |site, stage, item, owed| {
            processor.place_item(site, stage, 0, item, owed)
        })
    }
}

impl Processor {
    /// # Safety
    /// The stage is of a handle on cohort operations with these types.
    unsafe fn place_item<I: 'static, O: 'static>(
        &self,
        site: Site,
        stage: u8,
        flags: u8,
        item: I,
        owed: Owed<O>,
    ) -> Result<Slot, Refused> {
        let item = ManuallyDrop::new(Item { owed, item });
        // SAFETY: the vtable is of these types; the item is not used again.
        unsafe {
            self.place_as::<Item<I, O>, (), O>(site, stage, flags, item_vtable::<I, O>(), &item)
        }
    }

    /// # Safety
    /// The key is of a handle on cohort operations with these types.
    #[track_caller]
    pub(crate) unsafe fn call_item<I: 'static, O: 'static>(
        &self,
        Invocation { key, site }: Invocation,
        item: I,
    ) -> Call<O> {
        self.check(key);
        // SAFETY: by the caller's promise.
        match unsafe { self.place_item::<I, O>(site, key.stage(), HELD, item, Owed::NOTHING) } {
            // SAFETY: the slot was filled with result type `O`, and is held for this call alone.
            Ok(slot) => unsafe { Call::new(self, slot) },
            Err(refused) => Call::refused(self, refused),
        }
    }

    /// # Safety
    /// The key is of a handle on cohort operations with these types.
    pub(crate) unsafe fn dispatch_item<I: 'static, O: 'static>(
        &self,
        Invocation { key, site }: Invocation,
        item: I,
    ) -> Result<(), CallError> {
        self.check(key);
        // SAFETY: by the caller's promise.
        let placed = unsafe { self.place_item::<I, O>(site, key.stage(), 0, item, Owed::NOTHING) };
        placed.map(|_| ()).map_err(|refused| refused.reason(self))
    }

    /// # Safety
    /// The key is of a handle on cohort operations with these types.
    pub(crate) unsafe fn call_item_on<I: Send + 'static, O: Send + 'static>(
        &self,
        from: Invocation,
        target: usize,
        item: I,
    ) -> Call<O> {
        self.check(from.key);
        let processors = self.processors();
        assert!(target < processors, "no processor {target} in a program of {processors}");
        if target == self.index() {
            // SAFETY: by the caller's promise.
            return unsafe { self.call_item(from, item) };
        }
        let vtable = const { &item_parcel_vtable::<I, O>(take_up_item::<I, O>) };
        // SAFETY: the vtable is of these types.
        unsafe { self.call_away(from, target, vtable, item) }
    }

    /// Takes what is queued, up to the stage's largest cohort, and calls the handler once.
    pub(crate) fn run_batch(
        &self,
        stage: usize,
        local: &LocalStage,
        batch: &dyn Batch,
        order: Order,
        start: u64,
        tally: &Tally,
    ) {
        let (mut taken, mut last) = (0u64, None);
        self.batching.next_cohort();
        while tally.size.get() < local.max_cohort.get() {
            let parcel = match tally.parcels.get() {
                0 => None,
                _ => self.parcels_turn(stage, local, tally),
            };
            let next = parcel.or_else(|| local.queue.pop(order));
            let Some(slot) = next.or_else(|| self.next_parcel(stage)) else { break };
            tally.size.set(tally.size.get() + 1);
            if slot.has(ENDED) {
                bump(&tally.ended);
                self.discard(slot, CallError::Ended);
                continue;
            }
            if slot.session.get() != NO_SESSION && self.is_late(slot, start) {
                self.shed_late(slot, tally);
                continue;
            }
            tally.started.add(start.saturating_sub(slot.queued_at.get()));
            slot.clear(QUEUED);
            self.batching.mark(slot);
            self.counters.watch.operation(slot);
            last = Some((slot.vtable.get(), slot.site.get()));
            // SAFETY: of this stage's queue, and not started before (top of the file).
            unsafe { batch.take(self, slot) };
            taken += 1;
        }
        let Some((vtable, site)) = last else { return };
        self.batching.begin();
        let panic = catch_unwind(AssertUnwindSafe(|| batch.handle())).err();
        batch.clear();
        let (answered, lost) = self.batching.end();
        let name = self.stage_name(stage as u8);
        let error = panic.as_deref().map_or(CallError::Unanswered { stage: name }, |panic| {
            self.note_panic(stage as u8, plain((vtable.operation)()), site, panic)
        });
        let mut lost_here = 0;
        for Lost { slot, serial, of_this_cohort } in lost {
            lost_here += u64::from(of_this_cohort);
            let counters = self.stage_counters(slot.stage.get());
            if !self.fail_taken(slot, serial, error.clone()) {
                continue;
            }
            if !of_this_cohort {
                counters.ended.add(1);
                counters.ended_suspended.add(1);
            } else if panic.is_some() {
                bump(&tally.panicked);
                counters.panicked.add(1);
            }
        }
        // Kept replies: their operations are suspended.
        tally.suspended.set(taken.saturating_sub(answered + lost_here));
        if let Some(panic) = panic {
            discard_panic(panic);
        }
    }
}

/// What is known while a handler runs.
#[derive(Default)]
pub(crate) struct Batching {
    /// The number of the last cohort that was handled here. Its items have it in place of the time
    /// at which they were queued.
    cohort: Cell<u64>,
    handling: Cell<bool>,
    answered: Cell<u64>,
    lost: RefCell<Vec<Lost>>,
}

/// A reply that was dropped while a handler ran.
pub(crate) struct Lost {
    pub(crate) slot: Slot,
    pub(crate) serial: Serial,
    /// Not one that an earlier cohort has left.
    of_this_cohort: bool,
}

impl Batching {
    fn next_cohort(&self) {
        bump(&self.cohort);
    }

    /// The item is of the cohort that is being made.
    fn mark(&self, slot: Slot) {
        slot.queued_at.set(self.cohort.get());
    }

    fn begin(&self) {
        self.handling.set(true);
        self.answered.set(0);
    }

    /// As [`begin`](Self::begin), for code that has replies of cohorts that were taken before.
    pub(crate) fn begin_later(&self) {
        self.next_cohort();
        self.begin();
    }

    pub(crate) fn end(&self) -> (u64, Vec<Lost>) {
        self.handling.set(false);
        (self.answered.get(), self.lost.take())
    }

    fn is_handling(&self, slot: Slot) -> bool {
        self.handling.get() && slot.queued_at.get() == self.cohort.get()
    }

    /// An item was answered: by its handler, or after its cohort, in which it counts as suspended.
    pub(crate) fn answered(&self, processor: &Processor, slot: Slot) {
        if self.is_handling(slot) {
            bump(&self.answered);
        } else {
            let counters = processor.stage_counters(slot.stage.get());
            counters.resumed.add(1);
            counters.completed.add(1);
        }
    }

    /// A reply was dropped. False if no handler runs.
    pub(crate) fn lost(&self, slot: Slot, serial: Serial) -> bool {
        if self.handling.get() {
            let of_this_cohort = self.is_handling(slot);
            self.lost.borrow_mut().push(Lost { slot, serial, of_this_cohort });
        }
        self.handling.get()
    }
}
