//! A slot's state: its contents, its flags, and the number of its use.

/// The contents of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum SlotState {
    /// Nothing: the slot is in its pool.
    Free,
    /// The invocation; its stage has not yet run it.
    Unstarted,
    /// The future.
    Started,
    /// The reply owed to the caller of an item that its stage's handler has taken ([`crate::future::reply`]).
    Taken,
    /// The invocation or the result is with another processor.
    Away,
    /// The result.
    Done,
    /// A [`CallError`](crate::CallError).
    Failed,
    /// Nothing any more, but the slot is still named somewhere.
    Empty,
}

/// In its stage's queue, or taken from it and not yet suspended ([`Processor::running`](crate::Processor)).
pub(crate) const QUEUED: u8 = 1;
/// Being dropped right now.
pub(crate) const DYING: u8 = 2;
/// Re-enabled while it ran: goes back into the queue.
pub(crate) const WOKEN: u8 = 4;
/// Its session was ended while it ran or was queued: dropped at the next chance.
pub(crate) const ENDED: u8 = 8;
/// A `Call` waits for the result, so the slot outlives the operation.
pub(crate) const HELD: u8 = 16;
/// Suspends for a prefetch: is resumed within its cohort.
pub(crate) const FETCHING: u8 = 32;
/// Is being polled, and inside of that a child of its own ([`crate::processor::inline`]).
pub(crate) const OUTER: u8 = 64;

pub(crate) const NO_SESSION: u32 = u32::MAX;

/// The number of a slot's use: one more each time the slot is freed. It has 64 bits and never
/// repeats, so a handle that has kept a slot and its serial recognises its own operation.
///
/// A [`OperationId`](crate::operation::id::OperationId) has 24 bits for the same purpose and repeats. It is good for
/// waking, which is harmless when it is wrong; only a serial proves what a payload's type is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Serial(u64);

impl Serial {
    /// The serial of the slot's next use.
    #[inline(always)]
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The serial as one word, and back.
    pub(crate) fn word(self) -> u64 {
        self.0
    }

    pub(crate) const fn of_word(word: u64) -> Self {
        Self(word)
    }
}
