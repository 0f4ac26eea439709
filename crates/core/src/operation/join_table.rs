//! The join table: counters of unfinished children.
//!
//! A join counts its unfinished children down and wakes its parent once, when the last one completes (tr2001 §5.2.1).
//! The counter need not be atomic, because the results of children on other processors return as replies and are
//! counted on the parent's processor. The counters are stored in the processor and not in the join's future, which may
//! be dropped where it cannot access its processor. That leaves a stale id behind instead of a dangling pointer.

use std::cell::{Cell, RefCell};
use std::task::Waker;

use crate::panic::catch_panic;

/// The id of one wait of a join on this processor. A stale id matches no wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JoinId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl JoinId {
    /// The id in a waker's word.
    pub(crate) fn from_word(word: u64) -> Self {
        Self { index: word as u32, generation: (word >> 32) as u32 }
    }

    /// The id as one word, for a waker.
    pub(crate) fn word(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }
}

/// The counters of one processor's joins.
#[derive(Default)]
pub(crate) struct JoinTable {
    pub(crate) records: RefCell<Vec<JoinRecord>>,
    free: RefCell<Vec<u32>>,
}

#[derive(Default)]
pub(crate) struct JoinRecord {
    countdown: Countdown,
    pub(crate) generation: u32,
    pub(crate) parent: Option<Waker>,
}

impl JoinTable {
    /// Opens a wait for `children` arrivals on behalf of `parent`, and closes the wait `before`.
    pub(crate) fn await_arrivals(
        &self,
        before: Option<JoinId>,
        children: usize,
        parent: Waker,
    ) -> JoinId {
        if let Some(before) = before {
            self.close(before);
        }
        let mut records = self.records.borrow_mut();
        let index = self.free.borrow_mut().pop().unwrap_or_else(|| {
            records.push(JoinRecord::default());
            (records.len() - 1) as u32
        });
        let record = &mut records[index as usize];
        record.countdown.start(children);
        record.parent = Some(parent);
        JoinId { index, generation: record.generation }
    }

    /// The number of joins that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.records.borrow().len() - self.free.borrow().len()
    }

    /// Closes a wait that is over or was abandoned.
    pub(crate) fn close(&self, id: JoinId) {
        // Drops the waker after the borrow, because its destructor may be foreign code.
        let parent = {
            let mut records = self.records.borrow_mut();
            let record = &mut records[id.index as usize];
            if record.generation != id.generation {
                return;
            }
            record.generation = record.generation.wrapping_add(1);
            self.free.borrow_mut().push(id.index);
            record.parent.take()
        };
        catch_panic(|| drop(parent));
    }

    /// Returns the wakers of all waiting parents, at shutdown of the processor.
    pub(crate) fn clear(&mut self) -> Vec<Waker> {
        self.records.get_mut().iter_mut().filter_map(|record| record.parent.take()).collect()
    }

    /// Records that a child has completed. Returns the parent's waker if it was the last.
    pub(crate) fn arrive(&self, id: JoinId) -> Option<Waker> {
        match self.records.borrow_mut().get_mut(id.index as usize) {
            Some(record) if record.generation == id.generation && record.countdown.arrive() => {
                record.parent.take()
            }
            _ => None,
        }
    }
}

/// A countdown of arrivals.
#[derive(Default)]
pub(crate) struct Countdown(Cell<usize>);

impl Countdown {
    pub(crate) fn start(&self, arrivals: usize) {
        self.0.set(arrivals);
    }

    /// Records an arrival. Returns `true` if it was the last.
    pub(crate) fn arrive(&self) -> bool {
        // Excess arrivals come only from stale ids and are ignored.
        let Some(left) = self.0.get().checked_sub(1) else { return false };
        self.0.set(left);
        left == 0
    }
}
