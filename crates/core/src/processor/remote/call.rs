//! Remote calls: an invocation that crosses to another processor, and its result's way back.
//!
//! The caller's slot is the envelope: it lies in the caller's slab, and a pointer to it travels.
//!
//! 1. The caller's thread reserves a slot, writes a [`RemoteCall`] with the invocation into its payload, sets
//!    its state to `Away`, and puts the envelope into the outbox. The caller still owns all bytes.
//! 2. After the running cohort, the caller's thread moves the envelope from the outbox into the target's ring
//!    for the stage. From then on the target owns the payload, and the caller only the header.
//! 3. The target's thread takes the envelope from the ring when the stage runs, and moves the invocation out
//!    of the payload. If the deadline has passed, the session has ended, or the stage or the processor is
//!    full, it replies with the error.
//! 4. The target's thread places the invocation as an operation in its own slab. The payload of the envelope
//!    is now empty; [`RemoteReply`] owns it. The target publishes the operation's place in the
//!    [`CancelFlag`].
//! 5. The operation completes, panics or is cancelled on the target's thread, which writes the result or the
//!    error into the payload and sends the envelope back through its outbox.
//! 6. The caller's thread takes the envelope from its ring of replies. It owns the payload again, sets the
//!    slot's state from `outcome`, and wakes the call. If the call was dropped meanwhile, the slot is freed.
//!
//! A cancellation needs no envelope of its own. The caller sets the [`CancelFlag`] in the payload: before
//! step 4 the target finds it there; afterwards the caller reads the operation's place and sends a command.
//!
//! # Safety
//! The safety conditions of [`crate::operation::slot`] for envelopes: while an envelope is away, the caller's processor
//! touches only its header, and the target only its [`RemoteCall`] and, read-only, the vtable and the stage
//! in the header, which no thread writes meanwhile. The exception is [`CancelFlag`], which is atomic and
//! shared by both. `outcome` states which member of the payload is alive once the envelope is back.
//! Invocation and result are `Send` by the bounds of [`Processor::call_on`].

use std::cell::Cell;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::error::{CallError, Rejection};
use crate::mailbox::message::Message;
use crate::operation::cancel_flag::{CancelFlag, RemotePlace};
use crate::operation::envelope::Envelope;
use crate::operation::processor_ref::ProcessorRef;
use crate::operation::published::Site;
use crate::operation::sizes::OperationSizes;
use crate::operation::slot::{Payload, RemoteVTable, Slot, VTable, output_drop};
use crate::operation::state::{CANCELLED, HELD, Serial, SlotState};
use crate::panic::catch_panic;
use crate::processor;
use crate::processor::processor::Processor;
use crate::session::group_flag::Group;
use crate::stage::key::Invocation;

/// The payload of an envelope. `repr(C)`: the call reads the result at its start.
#[repr(C)]
struct RemoteCall<F, T> {
    cell: Payload<F, (), T>,
    home: u16,
    /// The deadline of the caller's session; the operation is not started after it.
    deadline: u64,
    /// The stage that was running on the caller's processor.
    from: u8,
    site: Site,
    outcome: Cell<Outcome>,
    /// The session of the operation. Taken together with the invocation.
    group: Cell<Option<Arc<Group>>>,
    /// Shared by the two processors while the envelope is away.
    cancel: CancelFlag,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// The invocation is alive: no processor has accepted it.
    None,
    /// The target has taken the invocation.
    Taken,
    Done,
    Failed,
}

impl Processor {
    /// Invokes on the processor numbered `target`.
    #[track_caller]
    pub(crate) fn call_on<F, Fut, T>(
        &self,
        from: Invocation,
        target: usize,
        invocation: F,
    ) -> Result<Slot, Rejection>
    where
        F: FnOnce(&Processor, u8) -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        self.check(from.key);
        let processors = self.processors();
        assert!(target < processors, "no processor {target} in a program of {processors}");
        if target == self.index() {
            return self.call(from, invocation);
        }
        self.call_by_envelope(from, target, invocation)
    }

    /// Invokes by an envelope on the processor numbered `target`. If that is this processor, another may take
    /// the envelope from the ring.
    pub(crate) fn call_by_envelope<F, Fut, T>(
        &self,
        from: Invocation,
        target: usize,
        invocation: F,
    ) -> Result<Slot, Rejection>
    where
        F: FnOnce(&Processor, u8) -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        self.check(from.key);
        // SAFETY: the vtable is of these types.
        unsafe {
            self.call_remote::<F, T>(from, target, crossing_vtable::<F, Fut, T>(), invocation)
        }
    }

    /// Sends an invocation, or an item of a cohort operation, by an envelope.
    ///
    /// # Safety
    /// The vtable is for envelopes of these types, and the key was checked.
    pub(crate) unsafe fn call_remote<F: Send, T: Send>(
        &self,
        Invocation { key, site }: Invocation,
        target: usize,
        vtable: &'static VTable,
        invocation: F,
    ) -> Result<Slot, Rejection> {
        let capacity = &self.stages[usize::from(key.stage())].runtime.capacity;
        if capacity.is_some() {
            let there = self.program().mailboxes[target].stages[usize::from(key.stage())].len();
            if there + capacity.outbound.get() >= capacity.bound {
                return Err(self.reject_at_stage(key.stage(), invocation));
            }
        }
        let Some(slot) = self.reserve::<RemoteCall<F, T>>() else {
            return Err(self.reject(key.stage(), invocation));
        };
        slot.flags.set(HELD);
        slot.vtable.set(vtable);
        slot.stage.set(key.stage());
        slot.state.set(SlotState::Away);
        slot.queued_at.set(target as u64); // in no queue while it is away: where it is
        // SAFETY: the slot is fresh and its class was chosen for this payload.
        unsafe {
            slot.payload::<RemoteCall<F, T>>().write(RemoteCall {
                cell: Payload { invocation: ManuallyDrop::new(invocation) },
                home: self.index() as u16,
                deadline: self.waiting.sessions.deadline(self.waiting.sessions.current()),
                from: self.running_stage() as u8,
                site,
                outcome: Cell::new(Outcome::None),
                group: Cell::new(self.leaving_group()),
                cancel: CancelFlag::default(),
            });
        }
        self.send(target, Message::Invocation(Envelope(slot)));
        Ok(slot)
    }

    /// Accepts an envelope from another processor: its invocation becomes an operation here, the newest of
    /// its stage's queue. Returns none if it was rejected.
    pub(crate) fn accept_remote(&self, Envelope(slot): Envelope) -> Option<Slot> {
        // SAFETY: the vtable is the one that the envelope was filled with.
        unsafe { (slot.vtable.get().remote.accept_remote)(slot, self.into()) }
    }

    /// Accepts an envelope that has returned, and delivers its result to the waiting call.
    pub(crate) fn complete_remote(&self, Envelope(slot): Envelope) {
        assert_eq!(slot.state.get(), SlotState::Away, "an envelope comes home once");
        // SAFETY: the vtable is the one that the envelope was filled with.
        slot.state.set(unsafe { (slot.vtable.get().remote.outcome)(slot) });
        let (there, stage) = (slot.queued_at.get() as u16, slot.stage.get());
        self.on_behalf_of(there, stage, || self.finish(slot));
    }
}

impl Processor {
    /// Cancels the operation of a call of this processor, on whichever processor it is, unless it is over.
    pub(crate) fn cancel_child(&self, slot: Slot) {
        match slot.state.get() {
            SlotState::Away => {
                // SAFETY: the vtable is the one that the envelope was filled with.
                let arrived = unsafe { (slot.vtable.get().remote.cancel_remote)(slot) };
                if let Some(RemotePlace { processor, index, serial }) = arrived {
                    // An operation that is over by the time the command arrives has another serial.
                    self.command(processor, move |there| there.cancel_arrived(index, serial));
                }
            }
            SlotState::Done | SlotState::Failed => (),
            _ => self.cancel_each(&[(slot, slot.serial.get())]),
        }
    }

    /// Like [`cancel_child`](Self::cancel_child), if the slot at `index` still belongs to that operation.
    pub(crate) fn cancel_child_at(&self, index: u32, serial: Serial) {
        let slot = self.slab().get(index).filter(|slot| slot.serial.get() == serial);
        slot.into_iter().for_each(|slot| self.cancel_child(slot));
    }

    fn cancel_arrived(&self, index: u32, serial: Serial) {
        let slot = self.slab().get(index).filter(|slot| slot.serial.get() == serial);
        slot.into_iter().for_each(|slot| self.cancel_each(&[(slot, serial)]));
    }
}

fn crossing_vtable<F, Fut, T>() -> &'static VTable
where
    F: FnOnce(&Processor, u8) -> Fut + Send + 'static,
    Fut: Future<Output = T> + 'static,
    T: Send + 'static,
{
    const {
        &VTable {
            poll: |_, _| unreachable!("an envelope is not run by its home processor"),
            drop_work: drop_invocation::<F, T>,
            drop_output: output_drop::<T>(),
            operation: std::any::type_name::<Fut>,
            sizes: OperationSizes::NONE,
            remote: RemoteVTable {
                accept_remote: accept_remote::<F, Fut, T>,
                outcome: outcome::<F, T>,
                settle: settle::<F, T>,
                cancel_remote: cancel_remote::<F, T>,
            },
        }
    }
}

/// The vtable of an envelope with an item for a cohort operation. `accept_remote` has the same types.
pub(crate) const fn item_envelope_vtable<I: Send + 'static, T: Send + 'static>(
    accept_remote: unsafe fn(Slot, ProcessorRef<'_>) -> Option<Slot>,
) -> VTable {
    VTable {
        poll: |_, _| unreachable!("an envelope is not run by its home processor"),
        drop_work: drop_invocation::<I, T>,
        drop_output: output_drop::<T>(),
        operation: std::any::type_name::<I>,
        sizes: OperationSizes::NONE,
        remote: RemoteVTable {
            accept_remote,
            outcome: outcome::<I, T>,
            settle: settle::<I, T>,
            cancel_remote: cancel_remote::<I, T>,
        },
    }
}

unsafe fn settle<F, T>(slot: Slot, done: bool) -> usize {
    let crossing: *mut RemoteCall<F, T> = slot.payload();
    // SAFETY: the envelope is away from home and here, so its payload is ours.
    unsafe {
        (*crossing).outcome.set(if done { Outcome::Done } else { Outcome::Failed });
        usize::from((*crossing).home)
    }
}

unsafe fn drop_invocation<F, T>(slot: Slot) {
    slot.state.set(SlotState::Empty);
    let crossing: *mut RemoteCall<F, T> = slot.payload();
    // SAFETY: called for `Unstarted` only: the invocation was never taken.
    unsafe {
        drop((*crossing).group.take());
        ManuallyDrop::drop(&mut (*crossing).cell.invocation);
    }
}

unsafe fn cancel_remote<F, T>(slot: Slot) -> Option<RemotePlace> {
    // SAFETY: only this member of an envelope in transit is shared, and it is atomic.
    unsafe { &(*slot.payload::<RemoteCall<F, T>>()).cancel }.end()
}

unsafe fn outcome<F, T>(slot: Slot) -> SlotState {
    // SAFETY: the envelope is here, so nobody else touches the payload.
    match unsafe { &(*slot.payload::<RemoteCall<F, T>>()).outcome }.get() {
        Outcome::None => SlotState::Unstarted,
        Outcome::Taken => SlotState::Empty,
        Outcome::Done => SlotState::Done,
        Outcome::Failed => SlotState::Failed,
    }
}

unsafe fn accept_remote<F, Fut, T>(slot: Slot, processor: ProcessorRef<'_>) -> Option<Slot>
where
    F: FnOnce(&Processor, u8) -> Fut + Send + 'static,
    Fut: Future<Output = T> + 'static,
    T: Send + 'static,
{
    let processor = processor.get();
    // SAFETY: the envelope came through a ring, and has this vtable.
    unsafe {
        receive::<F, T>(slot, processor, |site, stage, invocation, mut reply| {
            processor.place(site, stage, 0, move |processor, stage| {
                match catch_unwind(AssertUnwindSafe(|| invocation(processor, stage))) {
                    Ok(future) => RemoteFuture { future, reply },
                    Err(panic) => {
                        reply.send(Err(processor.panic_error(stage, &*panic)));
                        resume_unwind(panic)
                    }
                }
            })
        })
    }
}

/// Takes the invocation or item out of an envelope that has arrived. `place` makes it an operation here, in
/// the session that the envelope names.
///
/// # Safety
/// The envelope came through a ring, was filled with these types, and is received once.
pub(crate) unsafe fn receive<F, T>(
    slot: Slot,
    processor: &Processor,
    place: impl FnOnce(Site, u8, F, RemoteReply<T>) -> Result<Slot, Rejection>,
) -> Option<Slot> {
    let crossing: *mut RemoteCall<F, T> = slot.payload();
    // SAFETY: the envelope came through a ring, so its payload is ours; the invocation is read once.
    let (invocation, group, deadline, home, from, site) = unsafe {
        (*crossing).outcome.set(Outcome::Taken);
        let invocation = ManuallyDrop::take(&mut (*crossing).cell.invocation);
        let (home, from, site) = ((*crossing).home, (*crossing).from, (*crossing).site);
        (invocation, (*crossing).group.take(), (*crossing).deadline, home, from, site)
    };
    // The stage field is written before the envelope is sent, and read-only while it is away.
    let stage = slot.stage.get();
    let mut invocation = Some(invocation);
    let mut reply = RemoteReply::<T> { envelope: Some(slot), result: std::marker::PhantomData };
    let joined = processor.in_group(group, || {
        processor.waiting.sessions.adopt_deadline(deadline);
        // An envelope is accepted when its operation would start, so the deadline is checked now.
        if deadline <= processor.now() {
            processor.stage_counters(stage).shed_deadline.add(1);
            reply.send(Err(CallError::DeadlinePassed));
            return None;
        }
        let invocation = invocation.take()?;
        if !processor.slab().has_room() || !processor.stage(stage.into()).queue.has_room() {
            let rejection = processor.reject(stage, invocation);
            reply.send(Err(processor.rejection(rejection)));
            return None;
        }
        let reply = std::mem::replace(&mut reply, RemoteReply::EMPTY);
        let placed = processor.arriving_from(home, from, || place(site, stage, invocation, reply));
        let operation = placed.ok()?;
        // SAFETY: shared, as in `cancel_remote`; the envelope is here until the operation has run.
        let there = unsafe { &(*crossing).cancel };
        let (at, index) = (processor.index(), operation.id.get().index());
        if there.arrive(RemotePlace { processor: at, index, serial: operation.serial.get() }) {
            operation.set(CANCELLED);
        }
        Some(operation)
    });
    // If the invocation was not accepted, its destructor is user code; the reply is sent even if it
    // panics.
    catch_panic(|| drop(invocation));
    // If there was no reply yet, tells the caller that its session has ended.
    drop(reply);
    if joined.is_none() {
        processor.stage_counters(stage).cancelled.add(1);
    }
    joined.flatten()
}

/// The reply to a caller on another processor. It is sent with the result or, if the operation ends without a
/// result, when it is dropped. Empty if no reply is owed.
#[repr(transparent)]
pub(crate) struct RemoteReply<T> {
    envelope: Option<Slot>,
    result: std::marker::PhantomData<T>,
}

impl<T> RemoteReply<T> {
    pub(crate) const EMPTY: Self = Self { envelope: None, result: std::marker::PhantomData };

    pub(crate) fn is_empty(&self) -> bool {
        self.envelope.is_none()
    }

    pub(crate) fn send(&mut self, result: Result<T, CallError>) {
        let Some(slot) = self.envelope.take() else { return };
        let done = result.is_ok();
        // SAFETY: the envelope is away from home and here; its invocation was moved out, so nothing
        // is alive where this writes; and there is room for either (`Payload`).
        let home = unsafe {
            match result {
                Ok(value) => slot.payload::<T>().write(value),
                Err(error) => slot.payload::<CallError>().write(error),
            }
            (slot.vtable.get().remote.settle)(slot, done)
        };
        processor::current(|processor| match home == processor.index() {
            true => processor.complete_remote(Envelope(slot)),
            false => processor.send(home, Message::Reply(Envelope(slot))),
        });
    }
}

impl<T> Drop for RemoteReply<T> {
    fn drop(&mut self) {
        self.send(Err(CallError::Cancelled));
    }
}

/// A caller's operation on the target: replies with its result, or with its panic.
struct RemoteFuture<Fut, T> {
    future: Fut,
    reply: RemoteReply<T>,
}

impl<Fut: Future<Output = T>, T> Future for RemoteFuture<Fut, T> {
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
                let stage = reply.envelope.map(|slot| slot.stage.get());
                processor::current(|processor| {
                    reply.send(Err(processor.panic_error(stage.unwrap_or_default(), &*panic)));
                });
                resume_unwind(panic)
            }
        }
    }
}
