//! A notification for one waiting operation, from other operations of its processor. Unlike an event it can
//! be used repeatedly, so waiting calls no allocator.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// A notification. Dropping it notifies.
#[derive(Default)]
pub(crate) struct Notify(Cell<Option<Waker>>);

impl Notify {
    /// Wakes the waiting operation, if any.
    pub(crate) fn notify(&self) {
        if let Some(waiting) = self.0.take() {
            waiting.wake();
        }
    }

    /// Registers a waker, replacing an earlier one.
    pub(crate) fn register(&self, waiting: &Waker) {
        self.0.set(Some(waiting.clone()));
    }

    /// Completes when [`notify`](Self::notify) is called after its first poll.
    pub(crate) fn notified(&self) -> Notified<'_> {
        Notified { notify: self, waits: false }
    }
}

impl Drop for Notify {
    fn drop(&mut self) {
        self.notify();
    }
}

/// See [`Notify::notified`].
pub(crate) struct Notified<'b> {
    notify: &'b Notify,
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

#[cfg(test)]
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
