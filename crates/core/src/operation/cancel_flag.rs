//! Where an operation that has crossed is, so that its caller can end it: two words in the envelope.
//!
//! The target writes the operation's place there when it takes the invocation up; the caller's
//! processor writes that it is to end. Each exchanges the word, so the second of them sees the first:
//! either the caller learns the place and sends an order, or the target learns that it need not
//! begin. The order may come at any later time: the serial tells whether the slot is still in the
//! same use.

use crate::operation::state::Serial;
use crate::sync::{AtomicU64, Ordering};

/// No place has this word: a slot's index has 24 bits.
const NOT_ARRIVED: u64 = u64::MAX;
const CANCELLED: u64 = u64::MAX - 1;

/// An operation on the processor that it was sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RemotePlace {
    /// The processor's index in the program.
    pub(crate) processor: usize,
    /// The slot's index there.
    pub(crate) index: u32,
    pub(crate) serial: Serial,
}

pub(crate) struct CancelFlag {
    /// The processor's index in the high half, the slot's in the low one.
    place: AtomicU64,
    /// Written before the place, read after it.
    serial: AtomicU64,
}

impl Default for CancelFlag {
    fn default() -> Self {
        Self { place: AtomicU64::new(NOT_ARRIVED), serial: AtomicU64::new(0) }
    }
}

impl CancelFlag {
    /// The operation has begun its life there. True if it is to end.
    pub(crate) fn arrive(&self, RemotePlace { processor, index, serial }: RemotePlace) -> bool {
        self.serial.store(serial.word(), Ordering::Relaxed);
        let place = (processor as u64) << 32 | u64::from(index);
        self.place.swap(place, Ordering::AcqRel) == CANCELLED
    }

    /// It is to end. Where it is, if it has arrived.
    pub(crate) fn end(&self) -> Option<RemotePlace> {
        let place = self.place.swap(CANCELLED, Ordering::AcqRel);
        (place < CANCELLED).then(|| RemotePlace {
            processor: (place >> 32) as usize,
            index: place as u32,
            serial: Serial::of_word(self.serial.load(Ordering::Relaxed)),
        })
    }
}
