//! A notification from operations of one processor to a waiting operation of the same processor. Unlike a oneshot
//! channel, it can be reused, so waiting does not allocate.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::processor::operation::waker::wake_catching_panics;

/// A notification for one waiting operation of the same processor. Dropping it notifies.
///
/// It stores no permit: a notification without a waiter has no effect, so check the condition before waiting. A second
/// waiter replaces the first, which is then never woken; polling or dropping the first does not affect the second.
///
/// ```
/// use std::cell::{Cell, RefCell};
/// use std::collections::VecDeque;
/// use phalanx_core::Notify;
///
/// /// A queue with one reader.
/// #[derive(Default)]
/// struct Queue {
///     items: RefCell<VecDeque<u32>>,
///     filled: Notify,
/// }
///
/// impl Queue {
///     fn push(&self, item: u32) {
///         self.items.borrow_mut().push_back(item);
///         self.filled.notify();
///     }
///
///     async fn pop(&self) -> u32 {
///         loop {
///             let item = self.items.borrow_mut().pop_front();
///             match item {
///                 Some(item) => return item,
///                 None => self.filled.notified().await,
///             }
///         }
///     }
/// }
/// ```
#[derive(Default)]
pub struct Notify {
    waiting: Cell<Option<Waker>>,
    /// The number of the last registration, counted from one.
    registrations: Cell<u64>,
    /// The last registration that was notified.
    notified: Cell<u64>,
}

impl Notify {
    /// Wakes the waiting operation, if any.
    pub fn notify(&self) {
        if let Some(waiting) = self.waiting.take() {
            self.notified.set(self.registrations.get());
            wake_catching_panics(waiting);
        }
    }

    /// Registers a waker, replacing an earlier one.
    pub fn register(&self, waiting: &Waker) {
        // Cloning or dropping a waker may run user code.
        let waiting = waiting.clone();
        self.registrations.set(self.registrations.get() + 1);
        drop(self.waiting.replace(Some(waiting)));
    }

    /// Completes when [`notify`](Self::notify) is called after its first poll.
    pub fn notified(&self) -> Notified<'_> {
        Notified { notify: self, registration: 0 }
    }
}

impl Drop for Notify {
    fn drop(&mut self) {
        self.notify();
    }
}

/// The future of [`Notify::notified`].
#[must_use = "futures do nothing unless awaited"]
pub struct Notified<'n> {
    notify: &'n Notify,
    /// The number of this waiter's registration; 0 if it is not waiting.
    registration: u64,
}

impl Notified<'_> {
    /// Whether no other waiter has replaced this one.
    fn is_last(&self) -> bool {
        self.registration == self.notify.registrations.get()
    }
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.registration != 0 {
            // This waiter was notified, before another one replaced it or as the last one.
            if self.registration <= self.notify.notified.get() {
                self.registration = 0;
                return Poll::Ready(());
            }
            if !self.is_last() {
                return Poll::Pending;
            }
        }
        self.notify.register(context.waker());
        self.registration = self.notify.registrations.get();
        Poll::Pending
    }
}

impl Drop for Notified<'_> {
    fn drop(&mut self) {
        if self.registration != 0 && self.is_last() {
            self.notify.waiting.take();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn waiters_wake_once_and_when_it_is_dropped() {
        let count = Arc::new(Count::default());
        let waker = Waker::from(count.clone());
        let mut context = Context::from_waker(&waker);
        let notify = Notify::default();
        notify.notify();
        let mut notified = notify.notified();
        let mut poll = |notified: &mut Notified<'_>| Pin::new(notified).poll(&mut context);
        assert!(
            poll(&mut notified).is_pending(),
            "notifications before the first poll do not count"
        );
        assert!(poll(&mut notified).is_pending(), "another wake-up is not a notification");
        (0..2).for_each(|_| notify.notify());
        assert!(poll(&mut notified).is_ready());
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        let mut other = notify.notified();
        assert!(poll(&mut other).is_pending());
        drop(other);
        notify.notify();
        assert_eq!(count.0.load(Ordering::Relaxed), 1, "no waiter is left");
        notify.register(&waker);
        drop(notified);
        drop(notify);
        assert_eq!(count.0.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_replaced_waiter_leaves_the_newer_one() {
        let counts = [(); 2].map(|()| Arc::new(Count::default()));
        let wakers = counts.clone().map(Waker::from);
        let notify = Notify::default();
        let poll = |notified: &mut Notified<'_>, waker| {
            Pin::new(notified).poll(&mut Context::from_waker(waker))
        };
        let (mut first, mut second) = (notify.notified(), notify.notified());
        assert!(poll(&mut first, &wakers[0]).is_pending());
        assert!(poll(&mut second, &wakers[1]).is_pending());
        assert!(poll(&mut first, &wakers[0]).is_pending(), "another wake-up");
        drop(first);
        notify.notify();
        let woken = counts.map(|count| count.0.load(Ordering::Relaxed));
        assert_eq!((woken, poll(&mut second, &wakers[1])), ([0, 1], Poll::Ready(())));
    }

    #[test]
    fn a_waiter_that_was_notified_is_not_replaced() {
        let notify = Notify::default();
        let poll = |notified: &mut Notified<'_>| {
            Pin::new(notified).poll(&mut Context::from_waker(Waker::noop()))
        };
        let (mut first, mut second) = (notify.notified(), notify.notified());
        assert!(poll(&mut first).is_pending());
        notify.notify();
        assert!(poll(&mut second).is_pending());
        assert_eq!(poll(&mut first), Poll::Ready(()));
        assert!(poll(&mut second).is_pending());
        notify.notify();
        assert_eq!(poll(&mut second), Poll::Ready(()));
    }
}
