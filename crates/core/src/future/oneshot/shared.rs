//! A channel for one value between any two threads (WaitForEvent in tr2001 §5.2.1, for events from outside).
//!
//! One lock guards the value and the receiver's waker. It is held for a few instructions, and never
//! while a waker, a value's destructor or any other user code runs.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::panic::catch_panic;
use crate::sync::{Mutex, lock};

enum State<T> {
    /// Neither sent nor dropped. Contains the receiver's waker once the receiver has been polled.
    Waiting(Option<Waker>),
    Sent(T),
    /// The sender was dropped without sending, or the value was taken.
    Over,
    /// The receiver was dropped.
    Closed,
}

struct Inner<T>(Mutex<State<T>>);

impl<T> Inner<T> {
    /// Replaces the state with the one that `next` returns. The other result of `next` is returned, so that it is
    /// dropped after the lock is released.
    fn step<R>(&self, next: impl FnOnce(State<T>) -> (State<T>, R)) -> R {
        // No code that may panic runs under the lock, so the state is always consistent.
        let mut state = lock(&self.0);
        let (after, result) = next(std::mem::replace(&mut *state, State::Over));
        *state = after;
        result
    }
}

/// Creates a channel for one value between any two threads.
///
/// ```
/// use phalanx_core::oneshot;
///
/// async fn heavy(input: u64) -> Option<u64> {
///     let (sender, receiver) = oneshot::shared();
///     std::thread::spawn(move || sender.send(input * 2));
///     receiver.await // none if the thread ended without sending
/// }
/// # fn is_send<T: Send>(_: T) {}
/// # is_send(heavy(1));
/// ```
pub fn shared<T: Send>() -> (Sender<T>, Receiver<T>) {
    let inner = Arc::new(Inner(Mutex::new(State::Waiting(None))));
    (Sender(inner.clone()), Receiver(inner))
}

/// The sending end of a [`shared`] channel.
pub struct Sender<T: Send>(Arc<Inner<T>>);

impl<T: Send> Sender<T> {
    /// Sends the value and wakes the receiver. Drops the value if the receiver was dropped.
    pub fn send(self, value: T) {
        let (waker, rejected) = self.0.step(|state| match state {
            State::Waiting(waker) => (State::Sent(value), (waker, None)),
            other => (other, (None, Some(value))),
        });
        drop(rejected);
        waker.into_iter().for_each(|waker| catch_panic(|| waker.wake()));
    }

    /// Whether the receiver was dropped, so that no value is needed.
    pub fn is_closed(&self) -> bool {
        self.0.step(|state| {
            let abandoned = matches!(state, State::Closed);
            (state, abandoned)
        })
    }
}

impl<T: Send> Drop for Sender<T> {
    fn drop(&mut self) {
        let waker = self.0.step(|state| match state {
            State::Waiting(waker) => (State::Over, waker),
            other => (other, None),
        });
        waker.into_iter().for_each(|waker| catch_panic(|| waker.wake()));
    }
}

/// The receiving end of a [`shared`] channel. Resolves to the value, or to `None` if the sender was dropped
/// without sending.
#[must_use = "futures do nothing unless awaited"]
pub struct Receiver<T: Send>(Arc<Inner<T>>);

impl<T: Send> Future for Receiver<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        // Cloned before the lock is taken, and the old one dropped after it is released, because a foreign waker runs
        // foreign code.
        let waker = context.waker().clone();
        let (polled, _before) = self.0.step(|state| match state {
            State::Waiting(before) => (State::Waiting(Some(waker)), (Poll::Pending, before)),
            State::Sent(value) => (State::Over, (Poll::Ready(Some(value)), Some(waker))),
            closed => (closed, (Poll::Ready(None), Some(waker))),
        });
        polled
    }
}

impl<T: Send> Drop for Receiver<T> {
    fn drop(&mut self) {
        // An unclaimed value or the waker is dropped after the lock is released.
        drop(self.0.step(|state| (State::Closed, state)));
    }
}

/// Models of the two ends on two threads.
#[cfg(all(test, loom))]
mod loom {
    use ::loom::sync::Arc;
    use ::loom::sync::atomic::{AtomicUsize, Ordering};
    use ::loom::{model, thread};

    use super::*;

    /// A waker that counts how often it was used.
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl std::task::Wake for Count {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Polls the receiver once.
    fn poll_receiver<T: Send>(
        receiver: &mut Receiver<T>,
        woken: &std::sync::Arc<Count>,
    ) -> std::task::Poll<Option<T>> {
        let waker = std::task::Waker::from(woken.clone());
        std::pin::Pin::new(receiver).poll(&mut std::task::Context::from_waker(&waker))
    }

    /// The sender sends or is dropped during a poll: the receiver gets the value or none, immediately or after a
    /// wake-up.
    #[test]
    fn a_receiver_that_was_polled_before_the_send_is_woken() {
        for fired in [true, false] {
            model(move || {
                let (sender, mut receiver) = shared();
                let woken = std::sync::Arc::new(Count::default());
                let other = thread::spawn(move || {
                    if fired {
                        sender.send(7);
                    }
                });
                let first = poll_receiver(&mut receiver, &woken);
                other.join().unwrap();
                let expected = std::task::Poll::Ready(fired.then_some(7));
                if first.is_pending() {
                    assert_eq!(woken.0.load(Ordering::SeqCst), 1, "pending, and nobody woke it");
                    assert_eq!(poll_receiver(&mut receiver, &woken), expected);
                } else {
                    assert_eq!(first, expected);
                }
            });
        }
    }

    /// The receiver is dropped during the send: one of the two drops the value.
    #[test]
    fn a_value_that_is_not_received_is_dropped_once() {
        struct Value(Arc<AtomicUsize>);
        impl Drop for Value {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        model(|| {
            let dropped = Arc::new(AtomicUsize::new(0));
            let (sender, receiver) = shared();
            let value = Value(dropped.clone());
            let other = thread::spawn(move || sender.send(value));
            drop(receiver);
            other.join().unwrap();
            assert_eq!(dropped.load(Ordering::SeqCst), 1);
        });
    }
}
