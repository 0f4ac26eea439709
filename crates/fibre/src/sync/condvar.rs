//! A condition variable for fibres.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{LockResult, PoisonError};
use std::time::Duration;

use phalanx_core::timeout;

use super::mutex::MutexGuard;
use crate::fibre::wait;
use crate::wait_queue::WaitQueue;

/// A condition variable for fibres, to be used with a [`Mutex`](crate::sync::Mutex).
///
/// ```
/// use phalanx_fibre::sync::{Condvar, Mutex};
///
/// #[derive(Default)]
/// struct Gate {
///     open: Mutex<bool>,
///     opened: Condvar,
/// }
///
/// impl Gate {
///     fn open(&self) {
///         *self.open.lock().unwrap() = true;
///         self.opened.notify_all();
///     }
///
///     /// Called in a fibre.
///     fn pass(&self) {
///         drop(self.opened.wait_while(self.open.lock().unwrap(), |open| !*open).unwrap());
///     }
/// }
/// ```
#[derive(Debug, Default)]
pub struct Condvar {
    queue: WaitQueue,
}

impl Condvar {
    /// Creates a condition variable.
    pub fn new() -> Self {
        Self::default()
    }

    /// Releases the lock, suspends the fibre until it is notified, and takes the lock again. Releasing and waiting are
    /// atomic: a notification after the release is not lost. The call may also return without a notification.
    ///
    /// # Errors
    /// Returns the guard in the error if the lock is poisoned.
    ///
    /// # Panics
    /// Like [`wait`].
    #[track_caller]
    pub fn wait<'m, T: ?Sized>(&self, guard: MutexGuard<'m, T>) -> LockResult<MutexGuard<'m, T>> {
        let mutex = guard.mutex();
        wait(self.notified(guard));
        mutex.lock()
    }

    /// Waits while `condition` is true.
    ///
    /// # Errors
    /// The errors of [`wait`](Self::wait).
    ///
    /// # Panics
    /// Like [`wait`](Self::wait).
    #[track_caller]
    pub fn wait_while<'m, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'m, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'m, T>> {
        while condition(&mut *guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// Like [`wait`](Self::wait), but waits at most for `duration`. The second value tells whether the fibre was
    /// notified: the opposite of `WaitTimeoutResult::timed_out` of [`std::sync::Condvar`].
    ///
    /// # Errors
    /// The errors of [`wait`](Self::wait).
    ///
    /// # Panics
    /// Like [`wait`](Self::wait).
    #[track_caller]
    pub fn wait_timeout<'m, T: ?Sized>(
        &self,
        guard: MutexGuard<'m, T>,
        duration: Duration,
    ) -> LockResult<(MutexGuard<'m, T>, bool)> {
        let mutex = guard.mutex();
        let notified = wait(timeout(duration, self.notified(guard))).is_ok();
        match mutex.lock() {
            Ok(guard) => Ok((guard, notified)),
            Err(poisoned) => Err(PoisonError::new((poisoned.into_inner(), notified))),
        }
    }

    /// Wakes the fibre that has waited longest.
    pub fn notify_one(&self) {
        self.queue.notify_one();
    }

    /// Wakes all waiting fibres.
    pub fn notify_all(&self) {
        self.queue.notify_all();
    }

    /// Completes at the next notification after its first poll, at which it drops the guard.
    async fn notified<T: ?Sized>(&self, guard: MutexGuard<'_, T>) {
        let mut guard = Some(guard);
        let mut waiting = pin!(self.queue.wait(|notified| notified.then_some(())));
        poll_fn(|context| {
            let polled = waiting.as_mut().poll(context);
            guard = None;
            polled
        })
        .await;
    }
}
