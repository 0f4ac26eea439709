//! A session over several processors: each that its operations have come to keeps a record of its
//! own, and all records of a group share one word that says whether it has ended.
//!
//! The first invocation that leaves a session's processor makes the [`Group`]. Every invocation that
//! crosses from within carries it; the processor that takes it up finds its record of the group, or
//! makes one (the *proxy*), and the operation joins that. All records are alike: any processor may
//! end the group.
//!
//! **Ending** sets the flag, ends what is here, and sends an order to each processor that was
//! *visited*. Its answer comes when the record there has settled: no operations, no holds. Three
//! things make the answers enough.
//!
//! - *Nobody is forgotten.* Who takes an invocation up first notes its visit and then looks at the
//!   flag; who ends first sets the flag and then looks at the visits. Between the two steps of each
//!   stands a sequentially consistent fence, so at least one sees the other (Dekker's argument): the
//!   invocation is refused, or its processor gets the order.
//! - *Nobody comes after.* A processor that has had the order has seen the flag, and with it
//!   refuses whatever is taken up later; its record refuses what is invoked there. So a record that
//!   has settled stays so.
//! - *Nothing is between them.* An invocation under way is a slot of its caller's record, until the
//!   reply is home. It is taken up or refused, and either way replied to.
//!
//! Records wait for operations and holds only, never for another's answers, so two who end the same
//! group at once do not wait for each other.

use std::sync::Arc;

use crate::sync::{AtomicBool, AtomicU64, Ordering, fence};

/// What the records of one session share. Its address is the session's name among processors; the
/// records keep it alive, so no other has that name.
pub(crate) struct Group {
    ended: AtomicBool,
    /// One bit for each processor.
    visited: Box<[AtomicU64]>,
}

impl Group {
    pub(crate) fn new(processors: usize) -> Self {
        let words = processors.div_ceil(64);
        Self {
            ended: AtomicBool::new(false),
            visited: (0..words).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// The processor numbered `processor` takes part. False when the group has ended.
    pub(crate) fn visit(&self, processor: usize) -> bool {
        let (word, bit) = (&self.visited[processor / 64], 1 << (processor % 64));
        // Only this processor sets the bit. Found set, its fence has been passed: who ended before
        // that was seen then, and who ended after sees the bit.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
            fence(Ordering::SeqCst);
        }
        !self.ended.load(Ordering::Acquire)
    }

    /// Ends the group. Returns who has taken part.
    pub(crate) fn end(&self) -> Vec<usize> {
        self.ended.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        let words = self.visited.iter().map(|word| word.load(Ordering::Relaxed)).enumerate();
        let bits = |(at, word): (usize, u64)| {
            (0..64).filter(move |bit| word & (1 << bit) != 0).map(move |bit| at * 64 + bit)
        };
        words.flat_map(bits).collect()
    }
}

impl Group {
    /// What names the group on all processors: its address, which no other group has while a record
    /// keeps it alive.
    pub(crate) fn name(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self).addr()
    }
}
