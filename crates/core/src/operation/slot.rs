//! Slot: the memory of one operation, which is a header of one cache line followed by the closure.
//!
//! The closure is first the invocation (the caller's captures, *unstarted*), then the future
//! (*started*: its state between suspensions), and finally the result (*done*) or the error (*failed*).
//! All occupy the same bytes.
//!
//! # Safety
//! - Only the processor's slab creates a [`Slot`]. Its memory stays valid as long as the slab and the chunks that the
//!   slab passes to the program ([`crate::memory::slab`]). A slot leaves its processor's thread only as an
//!   [`Envelope`](crate::operation::envelope::Envelope), so only one thread writes the header's plain cells.
//! - [`Header::state`] tells which member of [`Payload`] is alive. Every function here that reads or writes the payload
//!   checks the state and updates it in the same step. It is called with the types that the slot was filled with:
//!   through the slot's own [`VTable`], or by a [`Call`](crate::Call) or [`Reply`](crate::Reply), whose result type
//!   comes from the function that filled the slot.
//! - A handle that outlives its operation must not mistake the slot's next operation for its own. A
//!   `Call` keeps its slot from being freed (`AWAITED`). Every other handle compares [`Header::serial`]
//!   ([`crate::operation::id`]).
//! - A future is polled and dropped in place, and slots never move, which satisfies the requirements of pinning.
//! - Two threads access a slot in transit; see [`crate::operation::envelope`].

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::panic::Location;
use std::ptr::NonNull;
use std::task::Waker;

use crate::error::CallError;
use crate::operation::id::OperationId;
use crate::operation::processor_ref::ProcessorRef;
use crate::operation::state::*;
use crate::operation::static_ref::StaticRef;

/// Where the program invoked an operation.
pub(crate) type Site = &'static Location<'static>;

/// The first cache line of a slot.
#[repr(C, align(64))]
pub(crate) struct Header {
    pub(crate) vtable: StaticRef<VTable>,
    /// Where the operation was invoked.
    pub(crate) site: StaticRef<Location<'static>>,
    /// The id of the operation, for wakers. It changes when the slot is freed, and repeats after 2²⁴
    /// uses.
    pub(crate) id: Cell<OperationId>,
    /// The time when the operation was last queued, in the clock's nanoseconds. In an envelope, the target instead; in
    /// an item that was taken, the number of its cohort.
    queued_since: Cell<u64>,
    // One store writes these four when a slot is filled.
    pub(crate) stage: Cell<u8>,
    pub(crate) state: Cell<SlotState>,
    pub(crate) flags: Cell<u8>,
    /// The size class; never changes.
    pub(crate) class: Cell<u8>,
    /// The session's index; [`NO_SESSION`] in a free slot and for an operation without a session.
    pub(crate) session: Cell<u32>,
    /// Woken when the operation is over.
    pub(crate) waiter: Cell<Option<Waker>>,
    /// The number of this use of the slot. Changes when the slot is freed, and never repeats.
    pub(crate) serial: Cell<Serial>,
}

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Header>() == 64, "the header is one cache line");
    let stage = offset_of!(Header, stage);
    assert!(stage % 4 == 0 && offset_of!(Header, state) == stage + 1);
    assert!(offset_of!(Header, flags) == stage + 2 && offset_of!(Header, class) == stage + 3);
};

impl Header {
    pub(crate) fn new(id: OperationId, class: u8) -> Self {
        Self {
            vtable: StaticRef::new(&VTable::NONE),
            site: StaticRef::new(Location::caller()),
            id: Cell::new(id),
            queued_since: Cell::new(0),
            stage: Cell::new(0),
            state: Cell::new(SlotState::Free),
            flags: Cell::new(0),
            class: Cell::new(class),
            session: Cell::new(NO_SESSION),
            waiter: Cell::new(None),
            serial: Cell::default(),
        }
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags.get() & flag != 0
    }

    pub(crate) fn set(&self, flag: u8) {
        self.flags.set(self.flags.get() | flag);
    }

    pub(crate) fn clear(&self, flag: u8) {
        self.flags.set(self.flags.get() & !flag);
    }

    /// Records when the operation was queued, in the clock's nanoseconds.
    #[inline(always)]
    pub(crate) fn set_queued(&self, now: u64) {
        self.queued_since.set(now);
    }

    #[inline(always)]
    pub(crate) fn queued_since(&self) -> u64 {
        self.queued_since.get()
    }

    /// Records the processor that an envelope is sent to. An envelope is in no queue, so the field is free.
    pub(crate) fn set_sent_to(&self, processor: usize) {
        self.queued_since.set(processor as u64);
    }

    pub(crate) fn sent_to(&self) -> usize {
        self.queued_since.get() as usize
    }

    /// Records the number of the cohort that has taken an item. The item is in no queue, so the field is free.
    pub(crate) fn set_cohort(&self, number: u64) {
        self.queued_since.set(number);
    }

    pub(crate) fn cohort(&self) -> u64 {
        self.queued_since.get()
    }
}

/// The state of an operation after a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Step {
    Suspended,
    /// Completed, with a result that must be fetched or dropped.
    Done,
    /// Completed, with a result that needs no drop.
    DoneBare,
}

/// The operations on a slot that depend on the types inside.
pub(crate) struct VTable {
    /// Starts or continues the operation. May unwind.
    pub(crate) poll: unsafe fn(Slot, ProcessorRef<'_>) -> Step,
    /// Drops the invocation or the future, whichever is alive.
    pub(crate) drop_work: unsafe fn(Slot),
    /// Drops the result. `None` if it needs no drop.
    pub(crate) drop_output: Option<unsafe fn(Slot)>,
    /// The type name of the operation.
    pub(crate) operation: fn() -> &'static str,
    pub(crate) sizes: OperationSizes,
    /// Turns the invocation of an envelope into an operation of the given processor, as the newest of its queue, if the
    /// processor accepts it.
    pub(crate) accept: unsafe fn(Slot, ProcessorRef<'_>) -> Option<Slot>,
}

/// The [`VTable::accept`] of slots that are never sent to other processors.
pub(crate) const NOT_SENT: unsafe fn(Slot, ProcessorRef<'_>) -> Option<Slot> =
    |_, _| unreachable!("only envelopes are accepted");

impl VTable {
    pub(crate) const NONE: Self = Self {
        poll: |_, _| unreachable!("an empty slot is never polled"),
        drop_work: |_| (),
        drop_output: None,
        operation: || "",
        sizes: OperationSizes::NONE,
        accept: NOT_SENT,
    };
}

/// The sizes of a type of operation, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OperationSizes {
    pub(crate) invocation: u32,
    pub(crate) future: u32,
    pub(crate) result: u32,
    /// The size of a slot without its header.
    pub(crate) payload: u32,
}

impl OperationSizes {
    pub(crate) const NONE: Self = Self { invocation: 0, future: 0, result: 0, payload: 0 };

    /// The sizes of the invocation, the future and the result, which occupy the slot at different times.
    pub(crate) const fn of<F, Fut, T>(payload: usize) -> Self {
        Self {
            invocation: size_of::<F>() as u32,
            future: size_of::<Fut>() as u32,
            result: size_of::<T>() as u32,
            payload: payload as u32,
        }
    }
}

/// The bytes after the header. It is `repr(C)` so that each member begins at the start of the union.
#[repr(C)]
pub(crate) union Payload<F, Fut, T> {
    pub(crate) invocation: ManuallyDrop<F>,
    pub(crate) future: ManuallyDrop<Fut>,
    pub(crate) output: ManuallyDrop<T>,
    /// Present only for its size, because errors are written at the start of the payload.
    _error: ManuallyDrop<CallError>,
}

/// One slot of a processor's slab.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(NonNull<Header>);

impl Deref for Slot {
    type Target = Header;

    fn deref(&self) -> &Header {
        // SAFETY: a slot is valid as long as any handle refers to it (top of the file).
        unsafe { self.0.as_ref() }
    }
}

impl Slot {
    /// # Safety
    /// `header` is the start of a slot of a slab and is followed by a payload of the slot's class.
    pub(crate) unsafe fn from_raw(header: NonNull<Header>) -> Self {
        Self(header)
    }

    pub(crate) fn payload<P>(self) -> *mut P {
        // SAFETY: the payload begins directly after the header, inside the slot's allocation.
        unsafe { self.0.as_ptr().add(1).cast() }
    }

    /// Fills a free slot with an invocation.
    ///
    /// # Safety
    /// The slot is free, of class `class`, and has room for a `Payload<F, Fut, T>`. The vtable is for these types. The
    /// invocation is moved: the caller must not use it again.
    #[inline(always)]
    pub(crate) unsafe fn fill<F, Fut, T>(
        self,
        vtable: &'static VTable,
        site: Site,
        stage: u8,
        flags: u8,
        class: u8,
        invocation: &ManuallyDrop<F>,
    ) {
        debug_assert_eq!((self.state.get(), self.class.get()), (SlotState::Free, class));
        self.vtable.set(vtable);
        self.site.set(site);
        let tags = u32::from_ne_bytes([stage, SlotState::Unstarted as u8, flags, class]);
        // SAFETY: the four cells are adjacent (asserted after `Header`), and each receives a value of
        // its type. The caller guarantees room for the payload; writing does not read the previous
        // contents.
        unsafe {
            (&raw mut (*self.0.as_ptr()).stage).cast::<u32>().write(tags);
            let payload: *mut Payload<F, Fut, T> = self.payload();
            copy_in(invocation, (&raw mut (*payload).invocation).cast());
        }
    }

    /// Moves the result out; the slot is then empty.
    ///
    /// # Safety
    /// The slot was filled with result type `T`.
    #[inline]
    pub(crate) unsafe fn take_result<T>(self) -> Option<Result<T, CallError>> {
        let state = self.state.get();
        let result = match state {
            // SAFETY: `Done` means that the output is alive, and the caller guarantees its type `T`.
            SlotState::Done => Ok(unsafe { self.payload::<T>().read() }),
            // SAFETY: `Failed` means that the error is alive.
            SlotState::Failed => Err(unsafe { self.payload::<CallError>().read() }),
            _ => return None,
        };
        self.state.set(SlotState::Empty);
        Some(result)
    }

    /// Starts or continues the operation. May unwind.
    #[inline(always)]
    pub(crate) fn poll(self, processor: ProcessorRef<'_>) -> Step {
        // SAFETY: the vtable is the one that the slot was filled with.
        unsafe { (self.vtable.get().poll)(self, processor) }
    }

    /// Drops the invocation or future, if there is one. Unwinds if a destructor panics.
    pub(crate) fn drop_work(self) {
        match self.state.get() {
            // SAFETY: the vtable is the one that the slot was filled with.
            SlotState::Unstarted | SlotState::Started | SlotState::Taken => unsafe {
                (self.vtable.get().drop_work)(self);
            },
            _ => (),
        }
    }

    /// Stores an error as the operation's result. Call [`Slot::drop_work`] first.
    pub(crate) fn fail(self, error: CallError) {
        assert_eq!(self.state.get(), SlotState::Empty, "an operation fails once");
        // SAFETY: every payload has room for an error (it is a member of the union), and nothing is
        // alive in it.
        unsafe { self.payload::<CallError>().write(error) };
        self.state.set(SlotState::Failed);
    }

    /// Whether the slot contains nothing that needs a drop.
    #[inline]
    pub(crate) fn is_bare(self) -> bool {
        match self.state.get() {
            SlotState::Done => self.vtable.get().drop_output.is_none(),
            state => state == SlotState::Empty,
        }
    }

    /// Drops an unclaimed result or error.
    pub(crate) fn drop_output(self) {
        match self.state.get() {
            SlotState::Done => {
                self.state.set(SlotState::Empty);
                if let Some(drop_output) = self.vtable.get().drop_output {
                    // SAFETY: `Done` means that the output is alive; the vtable has its type.
                    unsafe { drop_output(self) }
                }
            }
            SlotState::Failed => {
                self.state.set(SlotState::Empty);
                // SAFETY: `Failed` means that the error is alive.
                unsafe { self.payload::<CallError>().drop_in_place() }
            }
            _ => (),
        }
    }
}

/// Moves a small invocation into its slot, word by word.
///
/// The caller has the captures in registers, or has just written them to its stack one by one. A plain move would load
/// them from there with vector instructions. The CPU cannot forward several smaller stores to one vector load, so the
/// load would stall until the stores reach the cache, which takes longer than the rest of an invocation. Therefore each
/// word is moved through a register.
///
/// # Safety
/// `to` is valid for writing an `F`. The value is moved: the caller must not use `from` again.
#[inline(always)]
unsafe fn copy_in<F>(from: &ManuallyDrop<F>, to: *mut F) {
    type Word = std::mem::MaybeUninit<u64>;
    let from = (&raw const *from).cast::<F>();
    let words = size_of::<F>() / size_of::<Word>();
    if !cfg!(miri) && align_of::<F>() == align_of::<Word>() && words <= 16 {
        for word in 0..words {
            // SAFETY: both are aligned for words and consist of `words` words, because a type's size is a multiple of
            // its alignment. Padding is copied without inspection, and the assembly is empty.
            unsafe {
                let mut value = from.cast::<Word>().add(word).read();
                std::arch::asm!("/* {0} */", inout(reg) value, options(nomem, nostack, pure, preserves_flags));
                to.cast::<Word>().add(word).write(value);
            }
        }
    } else {
        // SAFETY: the caller guarantees that `to` is valid for an `F`.
        unsafe { to.copy_from_nonoverlapping(from, 1) }
    }
}

/// The function that drops a result of type `T` in a slot that is already marked as empty. `None` if `T` needs no drop.
pub(crate) const fn output_drop<T>() -> Option<unsafe fn(Slot)> {
    unsafe fn drop_output<T>(slot: Slot) {
        // SAFETY: the caller guarantees that the result is alive.
        unsafe { slot.payload::<T>().drop_in_place() }
    }
    if std::mem::needs_drop::<T>() { Some(drop_output::<T>) } else { None }
}
