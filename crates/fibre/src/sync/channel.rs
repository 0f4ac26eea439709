//! A bounded queue between fibres.

use std::collections::VecDeque;
use std::fmt;
pub use std::sync::mpsc::{RecvError, SendError};
use std::sync::mpsc::{TryRecvError, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::fibre::wait;
use crate::wait_queue::WaitQueue;

/// A queue of at most `capacity` values, between fibres on any processors. A full queue suspends senders, and an empty
/// queue suspends the receiver.
///
/// ```
/// use phalanx_core::{CallError, SharedStage};
/// use phalanx_fibre::LocalFibres;
/// use phalanx_fibre::sync::channel;
///
/// async fn sum(stage: SharedStage<()>) -> Result<u32, CallError> {
///     let call = stage.fibre(|_, fibre| {
///         let (sender, receiver) = channel(2);
///         let producer = fibre.spawn(move |_| (1..=10).try_for_each(|n| sender.send(n)));
///         let sum = receiver.iter().sum();
///         fibre.wait(producer).map(|_| sum)
///     });
///     call.await?
/// }
/// ```
///
/// # Panics
/// If `capacity` is zero.
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(capacity > 0, "the capacity of a channel must not be zero");
    let shared = Arc::new(Shared {
        state: Mutex::new(State { values: VecDeque::new(), senders: 1, receives: true }),
        capacity,
        filled: WaitQueue::default(),
        not_full: WaitQueue::default(),
    });
    (Sender(shared.clone()), Receiver(shared))
}

struct Shared<T> {
    state: Mutex<State<T>>,
    capacity: usize,
    filled: WaitQueue,
    not_full: WaitQueue,
}

struct State<T> {
    values: VecDeque<T>,
    senders: usize,
    receives: bool,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a value. Does not notify waiters, because a waiter calls it while it holds the lock of the wait queue.
    fn push(&self, value: T) -> Result<(), TrySendError<T>> {
        let mut state = self.lock();
        if !state.receives {
            return Err(TrySendError::Disconnected(value));
        }
        if state.values.len() == self.capacity {
            return Err(TrySendError::Full(value));
        }
        state.values.push_back(value);
        Ok(())
    }

    /// Takes the oldest value. Does not notify waiters, like [`push`](Self::push).
    fn pop(&self) -> Result<T, TryRecvError> {
        let mut state = self.lock();
        let State { values, senders, .. } = &mut *state;
        let empty = if *senders == 0 { TryRecvError::Disconnected } else { TryRecvError::Empty };
        values.pop_front().ok_or(empty)
    }
}

/// The sending end of a [`channel`].
pub struct Sender<T>(Arc<Shared<T>>);

impl<T> Sender<T> {
    /// Queues `value`. Suspends the fibre while the queue is full.
    ///
    /// # Errors
    /// Returns the value in the error if the receiver was dropped.
    ///
    /// # Panics
    /// Like [`wait`], if the queue is full.
    #[track_caller]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        let mut value = Some(value);
        let mut attempt = || match self.0.push(value.take()?) {
            Ok(()) => Some(Ok(())),
            Err(TrySendError::Disconnected(value)) => Some(Err(SendError(value))),
            Err(TrySendError::Full(back)) => {
                value = Some(back);
                None
            }
        };
        attempt().unwrap_or_else(|| wait(self.0.not_full.wait(|_| attempt())))?;
        self.0.filled.notify_one();
        Ok(())
    }

    /// Queues `value` if there is room. Can be called on any thread.
    ///
    /// # Errors
    /// Returns the value in the error if the queue is full or the receiver was dropped.
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        self.0.push(value)?;
        self.0.filled.notify_one();
        Ok(())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.lock().senders += 1;
        Self(self.0.clone())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.senders -= 1;
        let last = state.senders == 0;
        drop(state);
        if last {
            self.0.filled.notify_all();
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

/// The receiving end of a [`channel`].
pub struct Receiver<T>(Arc<Shared<T>>);

impl<T> Receiver<T> {
    /// Takes the oldest value. Suspends the fibre while the queue is empty.
    ///
    /// # Errors
    /// If the queue is empty and all senders were dropped.
    ///
    /// # Panics
    /// Like [`wait`], if the queue is empty.
    #[track_caller]
    pub fn recv(&self) -> Result<T, RecvError> {
        let attempt = || match self.0.pop() {
            Ok(value) => Some(Ok(value)),
            Err(TryRecvError::Disconnected) => Some(Err(RecvError)),
            Err(TryRecvError::Empty) => None,
        };
        let value = match attempt() {
            Some(received) => received,
            None => wait(self.0.filled.wait(|_| attempt())),
        }?;
        self.0.not_full.notify_one();
        Ok(value)
    }

    /// Takes the oldest value if there is one. Can be called on any thread.
    ///
    /// # Errors
    /// If the queue is empty.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        let value = self.0.pop()?;
        self.0.not_full.notify_one();
        Ok(value)
    }

    /// Receives until all senders have been dropped and the queue is empty.
    #[track_caller]
    pub fn iter(&self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.recv().ok())
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.receives = false;
        let lost = std::mem::take(&mut state.values);
        drop(state);
        self.0.not_full.notify_all();
        drop(lost);
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}
