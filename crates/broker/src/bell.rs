//! A bell: one operation waits for it, and others of its processor ring it. It says that something has changed, and
//! whoever hears it looks what. Unlike an event it is used again, so that waiting calls no allocator.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// A bell. Dropped it rings, so that nobody waits in vain.
#[derive(Default)]
pub(crate) struct Bell(Cell<Option<Waker>>);

impl Bell {
    /// Wakes whoever waits.
    pub(crate) fn ring(&self) {
        if let Some(waiting) = self.0.take() {
            waiting.wake();
        }
    }

    /// Has this one woken, in place of whoever was to be.
    pub(crate) fn wakes(&self, waiting: &Waker) {
        self.0.set(Some(waiting.clone()));
    }

    /// Happens when it is rung after this was polled first.
    pub(crate) fn rung(&self) -> Rung<'_> {
        Rung { bell: self, waits: false }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.ring();
    }
}

/// See [`Bell::rung`].
pub(crate) struct Rung<'b> {
    bell: &'b Bell,
    waits: bool,
}

impl Future for Rung<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let before = self.bell.0.take();
        if self.waits && before.is_none() {
            self.waits = false;
            return Poll::Ready(());
        }
        self.waits = true;
        self.bell.wakes(context.waker());
        Poll::Pending
    }
}

impl Drop for Rung<'_> {
    fn drop(&mut self) {
        if self.waits {
            self.bell.0.take();
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
    fn who_waits_is_woken_once_and_by_the_end() {
        let count = Arc::new(Count::default());
        let waker = Waker::from(count.clone());
        let mut context = Context::from_waker(&waker);
        let bell = Bell::default();
        bell.ring();
        let mut rung = bell.rung();
        let mut poll = |rung: &mut Rung<'_>| Pin::new(rung).poll(&mut context);
        assert!(poll(&mut rung).is_pending(), "it was rung before");
        assert!(poll(&mut rung).is_pending(), "woken by something else");
        (0..2).for_each(|_| bell.ring());
        assert!(poll(&mut rung).is_ready());
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        let mut other = bell.rung();
        assert!(poll(&mut other).is_pending());
        drop(other);
        bell.ring();
        assert_eq!(count.0.load(Ordering::Relaxed), 1, "nobody waits any more");
        bell.wakes(&waker);
        drop(rung);
        drop(bell);
        assert_eq!(count.0.load(Ordering::Relaxed), 2);
    }
}
