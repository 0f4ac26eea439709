//! Items of cohort operations: storing them in slots, and moving them out for the handler.
//!
//! # Safety
//! The queue of a stage that has a [`CohortHandler`] contains only slots that were filled through that stage's handles,
//! whose key and types come from the declaration. `enqueue_item` filled the slots with an `Item<I, O>`, which is alive
//! in the state `Unstarted`. Taking the item out leaves the [`RemoteReply`] at the payload's start, in the state
//! `Taken`.

use std::any::type_name;
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::rc::Rc;

use crate::error::{CallError, Rejection};
use crate::future::reply::Reply;
use crate::gate::OperationName;
use crate::handle::policy::cohort::entry::{Cohort, Entry};
use crate::operation::processor_ref::ProcessorRef;
use crate::operation::slot::Site;
use crate::operation::slot::{NOT_SENT, OperationSizes, Payload, Slot, VTable, output_drop};
use crate::operation::state::{AWAITED, SlotState};
use crate::panic::catch_panic;
use crate::processor::operation::invoke::Invoked;
use crate::processor::processor::Processor;
use crate::processor::remote::accept::{envelope_vtable, receive};
use crate::processor::remote::reply::RemoteReply;
use crate::stage::cohort_handler::{CohortHandler, SerialCohort};
use crate::stage::key::CallSite;

/// The handler with its state, and a vector that all cohorts reuse.
pub(crate) struct ItemHandler<I, O> {
    cohort: RefCell<Cohort<I, O>>,
    handle: Handle<I, O>,
    /// The cohort in progress, if cohorts run one at a time.
    serial: Option<Rc<SerialCohort>>,
}

/// A handler that owns its state.
type Handle<I, O> = Box<dyn Fn(&mut Cohort<I, O>)>;

impl<I: 'static, O: 'static> ItemHandler<I, O> {
    pub(crate) fn new(handle: impl Fn(&mut Cohort<I, O>) + 'static) -> Self {
        let cohort = RefCell::new(Cohort(Vec::new()));
        Self { cohort, handle: Box::new(handle), serial: None }
    }

    /// Makes the handler begin no cohort while another one is in progress.
    pub(crate) fn one_after_the_other(mut self, cohort: Rc<SerialCohort>) -> Self {
        self.serial = Some(cohort);
        self
    }
}

impl<I: 'static, O: 'static> CohortHandler for ItemHandler<I, O> {
    unsafe fn take_item(&self, processor: u32, slot: Slot) {
        let payload: *mut Item<I, O> = slot.payload();
        slot.state.set(SlotState::Taken);
        // SAFETY: an item of these types was alive (top of the file) and is read once. The reply stays in the slot.
        let (item, reply) =
            unsafe { ((&raw const (*payload).item).read(), Reply::new(processor, slot)) };
        self.cohort.borrow_mut().0.push(Entry { item, reply: Some(reply) });
    }

    fn handle(&self) {
        (self.handle)(&mut self.cohort.borrow_mut());
    }

    fn is_busy(&self) -> bool {
        self.serial.as_ref().is_some_and(|cohort| cohort.is_busy.get())
    }

    fn operation(&self) -> Option<OperationName> {
        self.serial.as_ref()?.handler.get()
    }

    fn clear(&self) {
        loop {
            let entry = self.cohort.borrow_mut().0.pop();
            let Some(entry) = entry else { break };
            catch_panic(|| drop(entry));
        }
    }
}

/// The payload of a slot until its item is taken. It is `repr(C)` because the reply must be at the start.
#[repr(C)]
struct Item<I, O> {
    reply: RemoteReply<O>,
    item: I,
}

const fn item_vtable<I: 'static, O: 'static>() -> &'static VTable {
    const {
        &VTable {
            poll: |_, _| unreachable!("items are handled, not polled"),
            drop_work: drop_item::<I, O>,
            drop_output: output_drop::<O>(),
            operation: type_name::<I>,
            sizes: OperationSizes::of::<Item<I, O>, (), O>(size_of::<Payload<Item<I, O>, (), O>>()),
            accept: NOT_SENT,
        }
    }
}

unsafe fn drop_item<I, O>(slot: Slot) {
    let item: *mut Item<I, O> = slot.payload();
    // SAFETY: the state says which member is alive. It changes before the drop, which may unwind.
    unsafe {
        match slot.state.replace(SlotState::Empty) {
            SlotState::Unstarted => item.drop_in_place(),
            _ => (&raw mut (*item).reply).drop_in_place(),
        }
    }
}

/// Accepts an item from another processor.
unsafe fn accept_item<I: Send + 'static, O: Send + 'static>(
    slot: Slot,
    processor: ProcessorRef<'_>,
) -> Option<Slot> {
    let processor = processor.get();
    // SAFETY: envelopes with this vtable contain an `I` and expect an `O`, and their stage is that of the handle that
    // sent them.
    unsafe {
        receive::<I, O>(slot, processor, |site, stage, item, reply| {
            processor.enqueue_item(site, stage, 0, item, reply)
        })
    }
}

impl Processor {
    /// # Safety
    /// The stage is of a handle on cohort operations with these types.
    unsafe fn enqueue_item<I: 'static, O: 'static>(
        &self,
        site: Site,
        stage: u8,
        flags: u8,
        item: I,
        reply: RemoteReply<O>,
    ) -> Result<Slot, Rejection> {
        let item = ManuallyDrop::new(Item { reply, item });
        // SAFETY: the vtable is for these types, and the item is not used again.
        unsafe {
            self.enqueue_as::<Item<I, O>, (), O>(site, stage, flags, item_vtable::<I, O>(), &item)
        }
    }

    /// # Safety
    /// The key is of a handle on cohort operations with these types.
    #[track_caller]
    pub(crate) unsafe fn call_item<I: 'static, O: 'static>(
        &self,
        CallSite { key, site }: CallSite,
        item: I,
    ) -> Invoked<O> {
        self.check(key);
        let (stage, reply) = (key.stage(), RemoteReply::EMPTY);
        // SAFETY: the caller guarantees the types. The slot has result type `O`, and one call awaits it.
        unsafe { Invoked::new(self.enqueue_item::<I, O>(site, stage, AWAITED, item, reply)) }
    }

    /// # Safety
    /// The key is of a handle on cohort operations with these types.
    #[track_caller]
    pub(crate) unsafe fn dispatch_item<I: 'static, O: 'static>(
        &self,
        CallSite { key, site }: CallSite,
        item: I,
    ) -> Result<(), CallError> {
        self.check(key);
        // SAFETY: by the caller's promise.
        self.dispatched(unsafe {
            self.enqueue_item::<I, O>(site, key.stage(), 0, item, RemoteReply::EMPTY)
        })
    }

    /// # Safety
    /// The key is of a handle on cohort operations with these types.
    #[track_caller]
    pub(crate) unsafe fn call_item_on<I: Send + 'static, O: Send + 'static>(
        &self,
        call_site: CallSite,
        target: usize,
        item: I,
    ) -> Invoked<O> {
        if self.is_here(target) {
            // SAFETY: by the caller's promise.
            return unsafe { self.call_item(call_site, item) };
        }
        let vtable = const { &envelope_vtable::<I, O>(accept_item::<I, O>, type_name::<I>) };
        // SAFETY: the vtable is for envelopes of these types.
        unsafe { Invoked::new(self.call_remote::<I, O>(call_site, target, vtable, item)) }
    }
}
