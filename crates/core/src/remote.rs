//! Invocations that cross to another processor, and their results' way home.
//!
//! The caller's slab holds a slot for the call; its payload carries the invocation there and the
//! result back (the slot itself is the parcel). The target moves the invocation out, runs it as an
//! operation of its own, writes the result into the parcel and sends it home, where the waiting
//! call finds it as if the child had run here. Orphans' slots come home the same way, to be freed
//! where they belong.
//!
//! # Safety
//! The rules of [`crate::operation`] on parcels: while a parcel is away, home touches only its
//! header, the target only its [`Crossing`], and of the header the vtable and the stage, which
//! nobody writes meanwhile. `outcome` says which member of the payload is alive
//! once the parcel is back. Invocation and result are `Send` by the bounds of [`Processor::call_on`].

use std::any::Any;
use std::cell::Cell;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::call::Call;
use crate::error::CallError;
use crate::operation::{HELD, Life, Parcel, Payload, RemoteVTable, Slot, VTable, output_drop};
use crate::post::Inbox;
use crate::processor::{self, Processor};
use crate::rendezvous::contain;
use crate::stage::Key;

/// The payload of a slot that crosses. `repr(C)`: the call reads the result at its start.
#[repr(C)]
struct Crossing<F, T> {
    cell: Payload<F, (), T>,
    home: u16,
    outcome: Cell<Outcome>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// The invocation is alive: nobody has taken it up.
    None,
    /// The target has it.
    Taken,
    Done,
    Failed,
}

/// Something that waits for room in another processor's post. The parcel's slots are bounded by
/// both slabs, so the outbox is.
pub(crate) struct Outbox {
    target: usize,
    inbox: Inbox,
    parcel: Parcel,
}

impl Processor {
    /// Invokes on this processor and holds the result.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn call<F, Fut, T>(&self, key: Key, invocation: F) -> Call<T>
    where
        F: FnOnce(&Processor, u8) -> Fut + 'static,
        Fut: Future<Output = T> + 'static,
        T: 'static,
    {
        let invocation = self.check_for(key, invocation);
        match self.place(key.stage(), HELD, ManuallyDrop::into_inner(invocation)) {
            // SAFETY: the slot was filled with result type `T`, and is held for this call alone.
            Ok(slot) => unsafe { Call::new(self, slot) },
            Err(refused) => Call::refused(self, refused),
        }
    }

    /// Invokes on this processor; the result is dropped.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn dispatch<F, Fut>(&self, key: Key, invocation: F) -> Result<(), CallError>
    where
        F: FnOnce(&Processor, u8) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        let invocation = self.check_for(key, invocation);
        match self.place(key.stage(), 0, ManuallyDrop::into_inner(invocation)) {
            Ok(_) => Ok(()),
            Err(refused) => Err(refused.reason(self)),
        }
    }

    /// Invokes on the processor numbered `target`.
    #[track_caller]
    pub(crate) fn call_on<F, Fut, T>(&self, key: Key, target: usize, invocation: F) -> Call<T>
    where
        F: FnOnce(&Processor, u8) -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        self.check(key);
        let processors = self.processors();
        assert!(target < processors, "no processor {target} in a program of {processors}");
        if target == self.index() {
            return self.call(key, invocation);
        }
        // SAFETY: the vtable is of these types.
        unsafe { self.call_away(key, target, crossing_vtable::<F, Fut, T>(), invocation) }
    }

    /// Sends an invocation, or an item of a cohort operation, to another processor.
    ///
    /// # Safety
    /// The vtable is for parcels of these types.
    pub(crate) unsafe fn call_away<F: Send, T: Send>(
        &self,
        key: Key,
        target: usize,
        vtable: &'static VTable,
        invocation: F,
    ) -> Call<T> {
        let capacity = &self.stages[usize::from(key.stage())].rules.capacity;
        if capacity.is_some() {
            let there = self.program().posts[target].stages[usize::from(key.stage())].len();
            if there + capacity.outbound.get() >= capacity.bound {
                return Call::refused(self, self.refuse_at_stage(key.stage(), invocation));
            }
        }
        let Some(slot) = self.reserve::<Crossing<F, T>>() else {
            return Call::refused(self, self.refuse(key.stage(), invocation));
        };
        capacity.outbound.set(capacity.outbound.get() + 1);
        slot.flags.set(HELD);
        slot.vtable.set(vtable);
        slot.stage.set(key.stage());
        slot.life.set(Life::Away);
        // SAFETY: the slot is fresh and its class was chosen for this payload.
        unsafe {
            slot.payload::<Crossing<F, T>>().write(Crossing {
                cell: Payload { invocation: ManuallyDrop::new(invocation) },
                home: self.index() as u16,
                outcome: Cell::new(Outcome::None),
            });
        }
        self.send(target, Inbox::Stage(key.stage()), Parcel(slot));
        // SAFETY: the slot comes home with a result of type `T`, and is held for this call alone.
        unsafe { Call::new(self, slot) }
    }

    /// Puts a parcel into the outbox. It leaves when the running operation has suspended or
    /// finished, so that a child never runs before that (tr2001 §5.2.1), and many leave at once.
    fn send(&self, target: usize, inbox: Inbox, parcel: Parcel) {
        self.outbox.borrow_mut().push_back(Outbox { target, inbox, parcel });
    }

    /// Sends what the outbox holds; what finds a full ring stays for the next time.
    #[inline]
    pub(crate) fn flush_outbox(&self) {
        if !self.outbox.borrow().is_empty() {
            self.flush_parcels();
        }
    }

    fn flush_parcels(&self) {
        // Others may go idle as soon as they have our replies: say first that we are not.
        self.say_busy();
        let waiting = self.outbox.borrow().len();
        for _ in 0..waiting {
            let Some(Outbox { target, inbox, parcel }) = self.outbox.borrow_mut().pop_front()
            else {
                break;
            };
            let post = &self.program().posts[target];
            match post.ring(inbox).push(parcel) {
                Ok(()) => {
                    self.counters.wakes_sent.add(u64::from(post.mark(inbox)));
                    if let Inbox::Stage(stage) = inbox {
                        let outbound = &self.stages[usize::from(stage)].rules.capacity.outbound;
                        outbound.set(outbound.get() - 1);
                    }
                }
                Err(parcel) => {
                    self.outbox.borrow_mut().push_back(Outbox { target, inbox, parcel });
                }
            }
        }
    }

    /// The processor ends: answers what was not taken up, sends what can still be sent, and leaves
    /// the rest to the program, which drops what travels in it.
    pub(crate) fn close_post(&self) {
        for stage in &self.post.stages {
            while let Some(parcel) = stage.pop() {
                contain(|| self.take_up(parcel));
            }
        }
        self.flush_outbox();
        for outbound in self.outbox.take() {
            self.program().keep_parcel(outbound.parcel);
        }
    }

    /// A parcel from another processor: its invocation becomes an operation here.
    pub(crate) fn take_up(&self, Parcel(slot): Parcel) {
        // SAFETY: the vtable is the one that the parcel was filled with.
        unsafe { (slot.vtable.get().remote.take_up)(slot, self) }
    }

    /// A parcel that has come home: its result goes to the waiting call.
    pub(crate) fn come_home(&self, Parcel(slot): Parcel) {
        assert_eq!(slot.life.get(), Life::Away, "a parcel comes home once");
        // SAFETY: the vtable is the one that the parcel was filled with.
        slot.life.set(unsafe { (slot.vtable.get().remote.outcome)(slot) });
        self.finish(slot);
    }
}

/// Drops what travels in a parcel that nobody will receive.
pub(crate) fn discard(Parcel(slot): Parcel) {
    // SAFETY: the vtable is the one that the parcel was filled with; its payload is untouched by
    // others, since the program is at its end.
    slot.life.set(unsafe { (slot.vtable.get().remote.outcome)(slot) });
    contain(|| slot.drop_work());
    contain(|| slot.drop_output());
}

fn crossing_vtable<F, Fut, T>() -> &'static VTable
where
    F: FnOnce(&Processor, u8) -> Fut + Send + 'static,
    Fut: Future<Output = T> + 'static,
    T: Send + 'static,
{
    const {
        &VTable {
            poll: |_, _| unreachable!("a parcel is not run by its home processor"),
            drop_work: drop_invocation::<F, T>,
            drop_output: output_drop::<T>(),
            operation: std::any::type_name::<Fut>,
            remote: RemoteVTable {
                take_up: take_up::<F, Fut, T>,
                outcome: outcome::<F, T>,
                settle: settle::<F, T>,
            },
        }
    }
}

/// The vtable of a parcel with an item for a cohort operation; `take_up` is of the same types.
pub(crate) const fn item_parcel_vtable<I: Send + 'static, T: Send + 'static>(
    take_up: unsafe fn(Slot, &Processor),
) -> VTable {
    VTable {
        poll: |_, _| unreachable!("a parcel is not run by its home processor"),
        drop_work: drop_invocation::<I, T>,
        drop_output: output_drop::<T>(),
        operation: std::any::type_name::<I>,
        remote: RemoteVTable { take_up, outcome: outcome::<I, T>, settle: settle::<I, T> },
    }
}

unsafe fn settle<F, T>(slot: Slot, done: bool) -> usize {
    let crossing: *mut Crossing<F, T> = slot.payload();
    // SAFETY: the parcel is away from home and here, so its payload is ours.
    unsafe {
        (*crossing).outcome.set(if done { Outcome::Done } else { Outcome::Failed });
        usize::from((*crossing).home)
    }
}

unsafe fn drop_invocation<F, T>(slot: Slot) {
    slot.life.set(Life::Empty);
    // SAFETY: called for `Unstarted` only: the invocation was never taken.
    unsafe { ManuallyDrop::drop(&mut (*slot.payload::<Crossing<F, T>>()).cell.invocation) }
}

unsafe fn outcome<F, T>(slot: Slot) -> Life {
    // SAFETY: the parcel is here, so nobody else touches the payload.
    match unsafe { &(*slot.payload::<Crossing<F, T>>()).outcome }.get() {
        Outcome::None => Life::Unstarted,
        Outcome::Taken => Life::Empty,
        Outcome::Done => Life::Done,
        Outcome::Failed => Life::Failed,
    }
}

unsafe fn take_up<F, Fut, T>(slot: Slot, processor: &Processor)
where
    F: FnOnce(&Processor, u8) -> Fut + Send + 'static,
    Fut: Future<Output = T> + 'static,
    T: Send + 'static,
{
    // SAFETY: the parcel came through a ring and has just arrived.
    let (invocation, mut reply) = unsafe { open::<F, T>(slot) };
    // The stage field is written before the parcel leaves home and read-only while it is away.
    // When there is no room, the dropped reply tells the caller that its operation has ended.
    let _ = processor.place(slot.stage.get(), 0, move |processor, stage| {
        match catch_unwind(AssertUnwindSafe(|| invocation(processor, stage))) {
            Ok(future) => Returning { future, reply },
            Err(panic) => {
                reply.send(Err(panicked(processor, stage, &*panic)));
                resume_unwind(panic)
            }
        }
    });
}

pub(crate) fn panicked(processor: &Processor, stage: u8, panic: &(dyn Any + Send)) -> CallError {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let message = text.unwrap_or("a panic without a message").into();
    CallError::Panicked { stage: processor.stage_name(stage), message }
}

/// Takes the invocation, or item, out of a parcel that has arrived.
///
/// # Safety
/// The parcel came through a ring, was filled with these types, and is opened once.
pub(crate) unsafe fn open<F, T>(slot: Slot) -> (F, Owed<T>) {
    let crossing: *mut Crossing<F, T> = slot.payload();
    // SAFETY: its payload is ours; the invocation is read once.
    let invocation = unsafe {
        (*crossing).outcome.set(Outcome::Taken);
        ManuallyDrop::take(&mut (*crossing).cell.invocation)
    };
    (invocation, Owed { parcel: Some(slot), result: std::marker::PhantomData })
}

/// Owed to a caller on another processor: sent with the result, or, if the operation ends without
/// one, when dropped. Empty where nothing is owed.
#[repr(transparent)]
pub(crate) struct Owed<T> {
    parcel: Option<Slot>,
    result: std::marker::PhantomData<T>,
}

impl<T> Owed<T> {
    pub(crate) const NOTHING: Self = Self { parcel: None, result: std::marker::PhantomData };

    pub(crate) fn is_nothing(&self) -> bool {
        self.parcel.is_none()
    }

    pub(crate) fn send(&mut self, result: Result<T, CallError>) {
        let Some(slot) = self.parcel.take() else { return };
        let done = result.is_ok();
        // SAFETY: the parcel is away from home and here; its invocation was moved out, so nothing
        // is alive where this writes; and there is room for either (`Payload`).
        let home = unsafe {
            match result {
                Ok(value) => slot.payload::<T>().write(value),
                Err(error) => slot.payload::<CallError>().write(error),
            }
            (slot.vtable.get().remote.settle)(slot, done)
        };
        processor::current(|processor| processor.send(home, Inbox::Replies, Parcel(slot)));
    }
}

impl<T> Drop for Owed<T> {
    fn drop(&mut self) {
        self.send(Err(CallError::Ended));
    }
}

/// A caller's operation on the target: replies with its result, or with its panic.
struct Returning<Fut, T> {
    future: Fut,
    reply: Owed<T>,
}

impl<Fut: Future<Output = T>, T> Future for Returning<Fut, T> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // SAFETY: `future` is pinned with `self` and never moved out; `reply` is not pinned.
        let Self { future, reply } = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
        let future = unsafe { Pin::new_unchecked(future) };
        match catch_unwind(AssertUnwindSafe(|| future.poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => {
                reply.send(Ok(value));
                Poll::Ready(())
            }
            Err(panic) => {
                let stage = reply.parcel.map(|slot| slot.stage.get());
                processor::current(|processor| {
                    reply.send(Err(panicked(processor, stage.unwrap_or_default(), &*panic)));
                });
                resume_unwind(panic)
            }
        }
    }
}
