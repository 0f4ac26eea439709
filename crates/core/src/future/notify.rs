//! A notification for one waiting operation, from other operations of its processor. Unlike a oneshot
//! channel it can be used repeatedly, so waiting calls no allocator.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::processor::operation::waker::wake_contained;

/// A notification for one waiting operation of the same processor. Dropping it notifies.
///
/// It stores no permit: a notification without a waiter has no effect, so the waiter checks its condition
/// before it waits. A second waiter replaces the first.
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
pub struct Notify(Cell<Option<Waker>>);

impl Notify {
    /// Wakes the waiting operation, if any.
    pub fn notify(&self) {
        if let Some(waiting) = self.0.take() {
            wake_contained(waiting);
        }
    }

    /// Registers a waker, replacing an earlier one.
    pub fn register(&self, waiting: &Waker) {
        self.0.set(Some(waiting.clone()));
    }

    /// Completes when [`notify`](Self::notify) is called after its first poll.
    pub fn notified(&self) -> Notified<'_> {
        Notified { notify: self, waits: false }
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
    waits: bool,
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let before = self.notify.0.take();
        if self.waits && before.is_none() {
            self.waits = false;
            return Poll::Ready(());
        }
        self.waits = true;
        self.notify.register(context.waker());
        Poll::Pending
    }
}

impl Drop for Notified<'_> {
    fn drop(&mut self) {
        if self.waits {
            self.notify.0.take();
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
}
