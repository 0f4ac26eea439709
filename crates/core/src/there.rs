//! Where an operation that has crossed is, so that its caller can end it: one word in the parcel.
//!
//! The target writes the operation's name there when it takes the invocation up; the caller's
//! processor writes that it is to end. Each exchanges the word, so the second of them sees the first:
//! either the caller learns the name and sends an order, or the target learns that it need not begin.
//! The name is good for an order at any later time, since a stale one names nothing.

use crate::sync::{AtomicU64, Ordering};
use crate::waker::Name;

/// No name has this number: a processor's number is smaller than all ones.
const NOWHERE: u64 = u64::MAX;
const ENDED: u64 = u64::MAX - 1;

pub(crate) struct There(AtomicU64);

impl Default for There {
    fn default() -> Self {
        Self(AtomicU64::new(NOWHERE))
    }
}

impl There {
    /// The operation is `name` on the processor with this index. True if it is to end.
    pub(crate) fn arrive(&self, processor: usize, name: Name) -> bool {
        let word = name.on(processor as u16).word();
        self.0.swap(word, Ordering::Relaxed) == ENDED
    }

    /// It is to end. Where it is, if it has arrived: the processor's index, and the operation's name
    /// but for the processor's number.
    pub(crate) fn end(&self) -> Option<(usize, Name)> {
        let word = self.0.swap(ENDED, Ordering::Relaxed);
        (word < ENDED).then(|| Name::of_word(word)).map(|name| (name.processor().into(), name))
    }
}
