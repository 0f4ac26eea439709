//! Cancel flag: two atomic words in an envelope with which a caller cancels an operation on another processor.
//!
//! The target writes the operation's location to the flag when it accepts the invocation; the caller's processor marks
//! the flag as cancelled. Both atomically exchange the same word, so the second one sees the value of the first: either
//! the caller learns the location and sends a command, or the target learns that it need not start the operation. The
//! command may arrive at any later time; the serial tells whether the slot still contains the same operation.

use crate::operation::state::Serial;
use crate::sync::{AtomicU64, Ordering};

/// The value before the operation has arrived. No location has this value, because a slot's index has 24 bits.
const NOT_ARRIVED: u64 = u64::MAX;
const CANCELLED: u64 = u64::MAX - 1;

/// The location of an operation on the processor it was sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RemoteSlot {
    /// The processor's index in the program.
    pub(crate) processor: usize,
    /// The slot's index there.
    pub(crate) index: u32,
    pub(crate) serial: Serial,
}

pub(crate) struct CancelFlag {
    /// The processor's index in the upper half, the slot's in the lower half.
    location: AtomicU64,
    /// Written before the location, read after it.
    serial: AtomicU64,
}

impl Default for CancelFlag {
    fn default() -> Self {
        Self { location: AtomicU64::new(NOT_ARRIVED), serial: AtomicU64::new(0) }
    }
}

impl CancelFlag {
    /// Records that the operation has arrived at this location. Returns `true` if it was cancelled.
    pub(crate) fn arrive(&self, RemoteSlot { processor, index, serial }: RemoteSlot) -> bool {
        self.serial.store(serial.word(), Ordering::Relaxed);
        let location = (processor as u64) << 32 | u64::from(index);
        self.location.swap(location, Ordering::AcqRel) == CANCELLED
    }

    /// Marks the operation as cancelled. Returns its location if it has arrived.
    pub(crate) fn cancel(&self) -> Option<RemoteSlot> {
        self.decode(self.location.swap(CANCELLED, Ordering::AcqRel))
    }

    /// The operation's location; `None` if it has not arrived or was cancelled.
    pub(crate) fn location(&self) -> Option<RemoteSlot> {
        self.decode(self.location.load(Ordering::Acquire))
    }

    fn decode(&self, word: u64) -> Option<RemoteSlot> {
        (word < CANCELLED).then(|| RemoteSlot {
            processor: (word >> 32) as usize,
            index: word as u32,
            serial: Serial::from_word(self.serial.load(Ordering::Relaxed)),
        })
    }
}
