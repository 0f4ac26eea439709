//! Group flag: the protocol that ends a session which spans several processors. Each processor that runs operations of
//! the session has its own record of it, and all records of a group share one flag that tells whether the session has
//! ended.
//!
//! The first invocation that leaves a session's processor creates the [`Group`]. Every remote invocation from within
//! the session carries a reference to it. The processor that accepts the invocation finds its record of the group, or
//! creates one (the *proxy*), and the operation joins that record. All records are equivalent: any processor may end
//! the group.
//!
//! Accepting an invocation, on the processor that receives it:
//!
//! 1. The processor sets its bit in `visited`.
//! 2. The processor executes a sequentially consistent fence.
//! 3. The processor loads the flag. If the session has ended, it rejects the invocation and replies with the error;
//!    otherwise the operation joins its record.
//!
//! Ending the session, on the processor that ends it (*E*) and those it has visited (*V*):
//!
//! 1. E sets the flag.
//! 2. E executes a sequentially consistent fence.
//! 3. E loads `visited` and sends a command to each visited processor except itself. It also cancels
//!    the operations of its own record.
//! 4. V runs the command: it closes its record, so that no operation can join it, and cancels the operations in it.
//! 5. V replies when its record has settled, that is, when it has no operations and no guards
//!    (immediately if it has no record of the group).
//! 6. E wakes the tasks that wait for the end when its own record has settled and all replies have
//!    arrived.
//!
//! No interleaving leaves an operation behind:
//!
//! - *No processor is missed.* One of the two fences, accepting step 2 and ending step 2, comes first
//!   (Dekker's argument). If it is the accepting one, E finds the bit and sends the command. If it is
//!   the ending one, the accepting processor finds the flag and rejects the invocation. `loom.rs`
//!   checks this in `a_session_ends_wherever_it_has_been`.
//! - *No operation joins afterwards.* A processor that has run the command has seen the flag. It
//!   rejects every later invocation from another processor, and its closed record rejects local ones. A
//!   settled record therefore stays settled.
//! - *No invocation is overlooked in transit.* An envelope in transit is a slot of its caller's record
//!   until the reply returns. The target accepts or rejects it, and replies in either case.
//!
//! A record waits only for operations and guards, never for the replies of other processors, so two processors that end
//! the same group at the same time do not wait for each other.

use std::sync::Arc;

use crate::sync::{AtomicBool, AtomicU64, Ordering, fence};

/// The state shared by all records of a session. Its address identifies the session on all processors;
/// the records keep it alive, so the address is unique.
pub(crate) struct Group {
    ended: AtomicBool,
    /// The deadline of the session on all processors, in the clock's nanoseconds.
    pub(crate) deadline: AtomicU64,
    /// One bit per processor that has accepted an invocation of the session.
    visited: Box<[AtomicU64]>,
}

impl Group {
    pub(crate) fn new(processors: usize, deadline: u64) -> Self {
        let words = processors.div_ceil(64);
        Self {
            ended: AtomicBool::new(false),
            deadline: AtomicU64::new(deadline),
            visited: (0..words).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Records that the processor at index `processor` takes part. Returns `false` if the group has ended.
    pub(crate) fn register(&self, processor: usize) -> bool {
        let (word, bit) = (&self.visited[processor / 64], 1 << (processor % 64));
        // Only this processor sets the bit. If it is already set, an earlier call has executed the fence: an end before
        // that fence is visible here, and an end after it sees the bit.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
            fence(Ordering::SeqCst);
        }
        !self.ended.load(Ordering::Acquire)
    }

    /// Ends the group. Returns the indices of the processors that have taken part.
    pub(crate) fn end(&self) -> Vec<usize> {
        self.ended.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        let words = self.visited.iter().map(|word| word.load(Ordering::Relaxed)).enumerate();
        let bits = |(at, word): (usize, u64)| {
            (0..64).filter(move |bit| word & (1 << bit) != 0).map(move |bit| at * 64 + bit)
        };
        words.flat_map(bits).collect()
    }

    /// The identity of the group on all processors, which is its address. It is unique while a record keeps the group
    /// alive.
    pub(crate) fn address(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self).addr()
    }
}
