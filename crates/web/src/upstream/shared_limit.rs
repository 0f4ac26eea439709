//! A limit that the workers share: each worker has a reserved part, and any worker may use the rest.
//!
//! With a reserved part, a worker never depends on the others: if it has to wait, it has requests in progress, and
//! continues when one of them ends. The rest lets the clients of one busy worker use nearly all of an idle server.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::config::part_of_worker;

/// A limit on units in use by all workers together.
pub(crate) struct SharedLimit {
    /// The part of each worker.
    own: usize,
    /// The part that all share.
    common: usize,
    /// Units in use of that part.
    taken: AtomicUsize,
}

impl SharedLimit {
    /// Half of `limit` is divided among the workers, who get at least `least` each. So the limit is `workers * least` if
    /// that is more.
    pub(super) fn new(limit: usize, workers: usize, least: usize) -> Self {
        let workers = workers.max(1);
        let own = part_of_worker(limit, workers).max(least);
        let common = limit.saturating_sub(own.saturating_mul(workers));
        Self { own, common, taken: AtomicUsize::new(0) }
    }

    /// The part of each worker.
    pub(super) fn own(&self) -> usize {
        self.own
    }

    /// Whether a worker that uses `count` units may currently take one more.
    pub(super) fn has_room(&self, count: usize) -> bool {
        count < self.own || self.taken.load(Relaxed) < self.common
    }

    /// Takes one unit for a worker that uses `count` units, unless the limit is reached.
    pub(super) fn try_take(&self, count: usize) -> bool {
        let add = |taken| (taken < self.common).then_some(taken + 1);
        count < self.own || self.taken.fetch_update(Relaxed, Relaxed, add).is_ok()
    }

    /// Returns one unit of a worker that uses `count` units, including this one.
    pub(super) fn give_back(&self, count: usize) {
        if count > self.own {
            self.taken.fetch_sub(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes as many as possible for a worker that uses `count`.
    fn take_all(limit: &SharedLimit, count: &mut usize) {
        while limit.try_take(*count) {
            *count += 1;
        }
        assert!(!limit.has_room(*count));
    }

    #[test]
    fn one_worker_uses_most_and_the_others_keep_their_part() {
        // (limit, workers, least, of the first worker, of each other one)
        for (limit, workers, least, first, others) in [
            (256, 64, 1, 130, 2),
            (256, 1, 1, 256, 0),
            (256, 2, 1, 192, 64),
            (5, 2, 1, 4, 1),
            (1, 8, 1, 1, 1),
            (1, 1, 0, 1, 0),
            (1, 8, 0, 1, 0),
            (0, 4, 0, 0, 0),
        ] {
            let shared = SharedLimit::new(limit, workers, least);
            let mut counts = vec![0; workers];
            counts.iter_mut().for_each(|count| take_all(&shared, count));
            assert_eq!(counts[0], first, "{limit} {workers}");
            assert!(counts[1..].iter().all(|count| *count == others), "{counts:?}");
            assert_eq!(counts.iter().sum::<usize>(), limit.max(workers * least));
            // Another worker gets the rest once the first one gives it back.
            while counts[0] > 0 {
                shared.give_back(counts[0]);
                counts[0] -= 1;
            }
            let last = workers - 1;
            take_all(&shared, &mut counts[last]);
            assert_eq!(counts[last], first, "{limit} {workers}");
        }
    }

    #[test]
    fn no_limit_overflows() {
        let shared = SharedLimit::new(usize::MAX, 64, 1);
        assert!(shared.try_take(0) && shared.try_take(usize::MAX / 64));
    }
}
