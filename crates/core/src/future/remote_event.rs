//! A remote event: one value that an operation waits for and any thread provides, another
//! processor's or a foreign one (WaitForEvent in tr2001 §5.2.1, from the outside).
//!
//! The value and the waiter's waker lie under one lock that is held for a few instructions, and
//! never while a waker, a value's destructor or any other foreign code runs. [`Event`] is the
//! cheaper one, for two ends on the same processor.
//!
//! [`Event`]: crate::Event

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::panic::catch_panic;
use crate::sync::Mutex;

enum State<T> {
    /// Neither fired nor dropped; whom to wake, once somebody has waited.
    Waiting(Option<Waker>),
    Fired(T),
    /// The trigger went without a value, or the value was taken.
    Over,
    /// Nobody waits any more.
    Abandoned,
}

struct Inner<T>(Mutex<State<T>>);

impl<T> Inner<T> {
    /// Looks at the state and puts another in its place, which `next` makes of it. What `next`
    /// gives back is dropped after the lock is free.
    fn step<R>(&self, next: impl FnOnce(State<T>) -> (State<T>, R)) -> R {
        // Nothing that may panic runs under the lock, and the state is always whole.
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (after, result) = next(std::mem::replace(&mut *state, State::Over));
        *state = after;
        result
    }
}

/// An event that has not happened, and the means to make it happen from any thread.
///
/// ```
/// use phalanx_core::remote_event;
///
/// async fn heavy(input: u64) -> Option<u64> {
///     let (trigger, event) = remote_event();
///     std::thread::spawn(move || trigger.fire(input * 2));
///     event.await // none, if the thread went without firing
/// }
/// # fn is_send<T: Send>(_: T) {}
/// # is_send(heavy(1));
/// ```
pub fn remote_event<T: Send>() -> (RemoteTrigger<T>, RemoteEvent<T>) {
    let inner = Arc::new(Inner(Mutex::new(State::Waiting(None))));
    (RemoteTrigger(inner.clone()), RemoteEvent(inner))
}

/// Makes a [`RemoteEvent`] happen, from whatever thread it is on.
pub struct RemoteTrigger<T: Send>(Arc<Inner<T>>);

impl<T: Send> RemoteTrigger<T> {
    /// Provides the value and re-enables whoever waits for it. When nobody waits any more, the
    /// value is dropped here.
    pub fn fire(self, value: T) {
        let (waker, refused) = self.0.step(|state| match state {
            State::Waiting(waker) => (State::Fired(value), (waker, None)),
            other => (other, (None, Some(value))),
        });
        drop(refused);
        waker.into_iter().for_each(|waker| catch_panic(|| waker.wake()));
    }

    /// Whether nobody waits any more, so that the value need not be made.
    pub fn is_abandoned(&self) -> bool {
        self.0.step(|state| {
            let abandoned = matches!(state, State::Abandoned);
            (state, abandoned)
        })
    }
}

impl<T: Send> Drop for RemoteTrigger<T> {
    fn drop(&mut self) {
        let waker = self.0.step(|state| match state {
            State::Waiting(waker) => (State::Over, waker),
            other => (other, None),
        });
        waker.into_iter().for_each(|waker| catch_panic(|| waker.wake()));
    }
}

/// Resolves to the value, or to none when the trigger was dropped without firing: nobody waits in
/// vain. May be dropped at any time.
#[must_use = "futures do nothing unless awaited"]
pub struct RemoteEvent<T: Send>(Arc<Inner<T>>);

impl<T: Send> Future for RemoteEvent<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        // Cloned before the lock, and the old one dropped after it: a foreign waker is foreign code.
        let waker = context.waker().clone();
        let (polled, _before) = self.0.step(|state| match state {
            State::Waiting(before) => (State::Waiting(Some(waker)), (Poll::Pending, before)),
            State::Fired(value) => (State::Over, (Poll::Ready(Some(value)), Some(waker))),
            over => (over, (Poll::Ready(None), Some(waker))),
        });
        polled
    }
}

impl<T: Send> Drop for RemoteEvent<T> {
    fn drop(&mut self) {
        // A value that nobody took, or the waker, goes after the lock is free.
        drop(self.0.step(|state| (State::Abandoned, state)));
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

    /// One look at an event.
    fn look<T: Send>(
        event: &mut RemoteEvent<T>,
        woken: &std::sync::Arc<Count>,
    ) -> std::task::Poll<Option<T>> {
        let waker = std::task::Waker::from(woken.clone());
        std::pin::Pin::new(event).poll(&mut std::task::Context::from_waker(&waker))
    }

    /// A trigger is fired (or dropped) while the operation looks: it finds the value (or none), now or
    /// after a wake-up that is not lost.
    #[test]
    fn a_remote_event_wakes_who_has_looked_too_early() {
        for fired in [true, false] {
            model(move || {
                let (trigger, mut event) = remote_event();
                let woken = std::sync::Arc::new(Count::default());
                let other = thread::spawn(move || {
                    if fired {
                        trigger.fire(7);
                    }
                });
                let first = look(&mut event, &woken);
                other.join().unwrap();
                let expected = std::task::Poll::Ready(fired.then_some(7));
                if first.is_pending() {
                    assert_eq!(woken.0.load(Ordering::SeqCst), 1, "pending, and nobody woke it");
                    assert_eq!(look(&mut event, &woken), expected);
                } else {
                    assert_eq!(first, expected);
                }
            });
        }
    }

    /// The event goes while the trigger is fired: the value is dropped once, by one of the two.
    #[test]
    fn a_value_that_nobody_takes_is_dropped_once() {
        struct Value(Arc<AtomicUsize>);
        impl Drop for Value {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        model(|| {
            let dropped = Arc::new(AtomicUsize::new(0));
            let (trigger, event) = remote_event();
            let value = Value(dropped.clone());
            let other = thread::spawn(move || trigger.fire(value));
            drop(event);
            other.join().unwrap();
            assert_eq!(dropped.load(Ordering::SeqCst), 1);
        });
    }
}
