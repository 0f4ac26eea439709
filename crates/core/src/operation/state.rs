//! Slot state: the contents of a slot, its flags and its serial.

/// The contents of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum SlotState {
    /// Nothing: the slot is in the slab's free list.
    Free,
    /// The invocation, not yet started.
    Unstarted,
    /// The future.
    Started,
    /// The pending reply to the caller of an item that its stage's handler has taken
    /// ([`crate::future::reply`]).
    Taken,
    /// The invocation or the result is in transit to, or on, another processor.
    InTransit,
    /// The result.
    Done,
    /// A [`CallError`](crate::CallError).
    Failed,
    /// Nothing, but a handle still refers to the slot.
    Empty,
}

/// In its stage's queue, or popped from it and not yet suspended.
pub(crate) const QUEUED: u8 = 1;
/// Being dropped.
pub(crate) const DYING: u8 = 2;
/// Woken while it ran, so it returns to the queue.
pub(crate) const WOKEN: u8 = 4;
/// Cancelled while it ran or was queued, so it is dropped at the next opportunity.
pub(crate) const CANCELLED: u8 = 8;
/// A `Call` awaits the result, so the slot outlives the operation.
pub(crate) const AWAITED: u8 = 16;
/// Suspended for a prefetch, so it resumes within its cohort.
pub(crate) const FETCHING: u8 = 32;
/// Being polled while one of its children runs inline ([`crate::processor::policy::execute::inline`]).
pub(crate) const OUTER: u8 = 64;

pub(crate) const NO_SESSION: u32 = u32::MAX;

/// The serial number of a slot's current use, incremented whenever the slot is freed. It has 64 bits and never repeats,
/// so a handle that stores a slot and its serial recognises its own operation. Only a serial proves the type of a
/// payload, because an [id](crate::operation::id) repeats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Serial(u64);

impl Serial {
    /// The serial of the slot's next use.
    #[inline(always)]
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The serial as one word.
    pub(crate) fn word(self) -> u64 {
        self.0
    }

    pub(crate) const fn from_word(word: u64) -> Self {
        Self(word)
    }
}
