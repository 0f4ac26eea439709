//! A value that is replaced now and then, while operations on all processors go by it: each keeps what it has seen, and
//! looks at a number whether that is still the newest.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The newest of a value. Clones share it.
pub(crate) struct Newest<T>(Arc<Shared<T>>);

struct Shared<T> {
    /// Of the value: looked at by all, so apart from the lock.
    number: AtomicU32,
    value: Mutex<(u32, Arc<T>)>,
}

impl<T> Clone for Newest<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Newest<T> {
    /// The first has the number 1.
    pub(crate) fn new(value: T) -> Self {
        let value = Mutex::new((1, Arc::new(value)));
        Self(Arc::new(Shared { number: AtomicU32::new(1), value }))
    }

    /// The number that the next value will have, which is never 0; if one thread alone replaces values.
    pub(crate) fn next(&self) -> u32 {
        self.0.number.load(Ordering::Relaxed).wrapping_add(1).max(1)
    }

    /// Puts `value` in the place of the newest.
    pub(crate) fn put(&self, value: T) {
        let mut newest = self.0.value.lock().unwrap_or_else(PoisonError::into_inner);
        let number = self.next();
        *newest = (number, Arc::new(value));
        // Behind the value: who sees the number finds at least this one.
        self.0.number.store(number, Ordering::Release);
    }

    /// The newest, to be kept [up to date](Seen::refresh).
    pub(crate) fn current(&self) -> Seen<T> {
        let newest = self.0.value.lock().unwrap_or_else(PoisonError::into_inner);
        let (number, value) = newest.clone();
        Seen { number, value }
    }
}

/// A value in somebody's hands.
pub(crate) struct Seen<T> {
    number: u32,
    value: Arc<T>,
}

impl<T> Seen<T> {
    /// The newest by now: one load where it has not changed.
    #[inline]
    pub(crate) fn refresh(&mut self, newest: &Newest<T>) -> &Arc<T> {
        if self.is_old(newest) {
            *self = newest.current();
        }
        &self.value
    }

    /// Whether there is a newer one.
    #[inline]
    pub(crate) fn is_old(&self, newest: &Newest<T>) -> bool {
        newest.0.number.load(Ordering::Acquire) != self.number
    }

    pub(crate) fn get(&self) -> &Arc<T> {
        &self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_seen() {
        let newest = Newest::new("one");
        let mut seen = newest.current();
        assert!(!seen.is_old(&newest) && **seen.refresh(&newest) == "one");
        let number = newest.next();
        newest.clone().put("two");
        assert!(seen.is_old(&newest) && **seen.get() == "one");
        assert_eq!((**seen.refresh(&newest), seen.number), ("two", number));
        assert!(!seen.is_old(&newest));
    }
}
