//! Operation id: an identifier of an operation that fits into one word, for wakers.
//!
//! The word contains the low bits of the slot's generation, the processor's number and the slot's index. It is stored
//! in the slot's header, so creating, cloning and dropping a waker is free. An id repeats after 2²⁴ uses of its slot,
//! so it proves nothing about the slot's contents. It is used only for waking, where a mistake is harmless: an
//! operation woken by a stale waker is polled once more. Code that reads or writes a payload, or cancels an operation,
//! compares the [`Serial`](crate::operation::state::Serial), which never repeats.

#[cfg(not(target_pointer_width = "64"))]
compile_error!("an operation's identity fills one word of 64 bits");

const INDEX_BITS: u32 = 24;
const NUMBER_BITS: u32 = 16;

/// The maximum number of operations of a processor. An id has 24 bits for the slot.
pub const MAX_OPERATIONS: usize = 1 << INDEX_BITS;

/// The id of an operation. The generation has the highest bits, so one addition yields the next id of a
/// slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OperationId(u64);

impl OperationId {
    pub(crate) fn new(processor: u16, index: u32) -> Self {
        assert!((index as usize) < MAX_OPERATIONS, "a slot's index fits its bits");
        Self(u64::from(processor) << INDEX_BITS | u64::from(index))
    }

    /// The id of the next operation in the same slot.
    #[inline]
    pub(crate) fn next(self) -> Self {
        Self(self.0.wrapping_add(1 << (INDEX_BITS + NUMBER_BITS)))
    }

    /// The id after `uses` more operations in the same slot.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn after(self, uses: u64) -> Self {
        Self(self.0.wrapping_add(uses << (INDEX_BITS + NUMBER_BITS)))
    }

    #[inline]
    pub(crate) fn index(self) -> u32 {
        self.0 as u32 & (MAX_OPERATIONS as u32 - 1)
    }

    #[inline]
    pub(crate) fn processor(self) -> u16 {
        (self.0 >> INDEX_BITS) as u16
    }

    /// The id as one word, for a waker.
    #[inline]
    pub(crate) fn word(self) -> u64 {
        self.0
    }

    /// The id in a waker's word.
    #[inline]
    pub(crate) fn from_word(word: u64) -> Self {
        Self(word)
    }
}
