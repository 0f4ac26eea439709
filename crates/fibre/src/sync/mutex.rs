//! A lock that suspends the waiting fibre.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{self, LockResult, PoisonError, TryLockError};

use crate::fibre::wait;
use crate::wait_queue::WaitQueue;

/// A lock for fibres. Unlike the guard of a [`std::sync::Mutex`], its guard may be held across a wait.
///
/// Waiting fibres take the lock in order of arrival. A fibre that arrives when the lock is free takes it immediately,
/// even ahead of a fibre that was woken for it. When that has happened to a woken fibre once, the waiting fibres come
/// first. The lock is poisoned if a fibre panics, or is unwound at the end of its session, while it holds the guard.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use phalanx_core::{CallError, SharedStage};
/// use phalanx_fibre::LocalFibres;
/// use phalanx_fibre::sync::Mutex;
///
/// async fn one_at_a_time(stage: SharedStage<Mutex<u32>>) -> Result<(), CallError> {
///     let call = stage.fibre(|counter, fibre| {
///         let mut count = counter.lock().unwrap();
///         fibre.sleep(Duration::from_millis(1));
///         *count += 1;
///     });
///     call.await
/// }
/// ```
#[derive(Default)]
pub struct Mutex<T: ?Sized> {
    queue: WaitQueue,
    value: sync::Mutex<T>,
}

impl<T> Mutex<T> {
    /// Creates a free lock.
    pub fn new(value: T) -> Self {
        Self { queue: WaitQueue::default(), value: sync::Mutex::new(value) }
    }

    /// Returns the value.
    ///
    /// # Errors
    /// Returns the value in the error if the lock is poisoned.
    pub fn into_inner(self) -> LockResult<T> {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Takes the lock, or suspends the fibre until it is free.
    ///
    /// # Errors
    /// Returns the guard in the error if the lock is poisoned.
    ///
    /// # Panics
    /// Like [`wait`], if the fibre has to wait.
    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let attempt = |is_notified: bool| {
            if is_notified || !self.queue.has_late() { self.attempt() } else { None }
        };
        attempt(false).unwrap_or_else(|| wait(self.queue.wait(attempt)))
    }

    /// Takes the lock if it is free. Can be called on any thread.
    ///
    /// # Errors
    /// `WouldBlock` if the lock is taken; `Poisoned`, with the guard, if it is poisoned.
    pub fn try_lock(&self) -> Result<MutexGuard<'_, T>, TryLockError<MutexGuard<'_, T>>> {
        match self.attempt() {
            Some(guard) => guard.map_err(TryLockError::Poisoned),
            None => Err(TryLockError::WouldBlock),
        }
    }

    /// The value, without taking the lock.
    ///
    /// # Errors
    /// Returns the reference in the error if the lock is poisoned.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.value.get_mut()
    }

    /// Whether a fibre has been unwound while it held the guard.
    pub fn is_poisoned(&self) -> bool {
        self.value.is_poisoned()
    }

    /// The guard; `None` if the lock is taken.
    fn attempt(&self) -> Option<LockResult<MutexGuard<'_, T>>> {
        let guard = |guard| MutexGuard { mutex: self, guard: Some(guard) };
        match self.value.try_lock() {
            Ok(locked) => Some(Ok(guard(locked))),
            Err(TryLockError::Poisoned(locked)) => {
                Some(Err(PoisonError::new(guard(locked.into_inner()))))
            }
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

/// Access to the value of a [`Mutex`]. Dropping the guard releases the lock and wakes the first waiting fibre.
#[must_use = "dropping the guard releases the lock"]
pub struct MutexGuard<'m, T: ?Sized> {
    mutex: &'m Mutex<T>,
    /// Present until it is dropped.
    guard: Option<sync::MutexGuard<'m, T>>,
}

impl<'m, T: ?Sized> MutexGuard<'m, T> {
    pub(super) fn mutex(&self) -> &'m Mutex<T> {
        self.mutex
    }
}

const PRESENT: &str = "present until it is dropped";

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.guard.as_ref().expect(PRESENT)
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect(PRESENT)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.guard = None;
        self.mutex.queue.notify_one();
    }
}
