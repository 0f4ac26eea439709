//! A first-in, first-out queue of waiting fibres on any processors.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The waiters of a lock, a condition, a channel or a pool.
#[derive(Debug, Default)]
pub(crate) struct WaitQueue {
    waiters: Mutex<Waiters>,
    /// The number of waiters, so that a notifier takes the lock only if there are any.
    count: AtomicUsize,
    /// The number of waiters that were notified, but whose attempt came too late. Changed under the lock.
    late: AtomicUsize,
}

#[derive(Debug, Default)]
struct Waiters {
    /// By ascending position. No position is used twice: a waiter keeps its own until its wait ends.
    queue: VecDeque<(i64, Waker)>,
    /// The next position at the back.
    back: i64,
}

/// A place in a queue. A waiter that gives up passes it to [`WaitQueue::leave`].
#[derive(Debug, Default)]
pub(crate) struct QueuePosition {
    position: Option<i64>,
    /// Whether the waiter was notified, but its attempt came too late.
    is_late: bool,
}

impl WaitQueue {
    fn lock(&self) -> MutexGuard<'_, Waiters> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `attempt`, and queues the caller if it returns `None`. A new waiter queues behind earlier ones without an
    /// attempt. Code that makes an attempt possible must call [`notify_one`](Self::notify_one) afterwards. The argument
    /// of `attempt` tells whether the caller has been notified.
    pub(crate) fn poll<R>(
        &self,
        position: &mut QueuePosition,
        context: &mut Context<'_>,
        attempt: impl FnOnce(bool) -> Option<R>,
    ) -> Poll<R> {
        // Cloned before the lock is taken and dropped after it is released, because a foreign waker runs foreign code.
        let mut waker = context.waker().clone();
        let mut waiters = self.lock();
        let Waiters { queue, back } = &mut *waiters;
        // Stored before the attempt, so that either the attempt succeeds or the notifier sees the count.
        self.count.store(queue.len() + 1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let place = position.position;
        let place = place.map(|position| queue.binary_search_by_key(&position, |each| each.0));
        let done = match place {
            None if !queue.is_empty() => None,
            place => attempt(matches!(place, Some(Err(_)))),
        };
        let before = match (done.is_some(), place) {
            (true, Some(Ok(index))) => queue.remove(index).map(|(_, waker)| waker),
            (true, _) => None,
            (false, Some(Ok(index))) => {
                std::mem::swap(&mut queue[index].1, &mut waker);
                None
            }
            // This waiter was notified, but another caller was faster. It stays ahead of later waiters.
            (false, Some(Err(index))) => {
                queue.insert(index, (position.position.unwrap_or_default(), waker.clone()));
                if !std::mem::replace(&mut position.is_late, true) {
                    self.late.fetch_add(1, Ordering::Relaxed);
                }
                None
            }
            (false, None) => {
                queue.push_back((*back, waker.clone()));
                position.position = Some(*back);
                *back += 1;
                None
            }
        };
        self.count.store(queue.len(), Ordering::Relaxed);
        if done.is_some() {
            self.remove(position);
        }
        drop(waiters);
        drop((before, waker));
        done.map_or(Poll::Pending, Poll::Ready)
    }

    /// Ends the wait at `position`, under the lock.
    fn remove(&self, position: &mut QueuePosition) {
        if std::mem::take(position).is_late {
            self.late.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether a waiter still waits after a notification that came too late. Newcomers then leave a lock to the
    /// notified waiters, so that a fibre that takes it again and again does not starve them.
    pub(crate) fn has_late(&self) -> bool {
        self.late.load(Ordering::Relaxed) > 0
    }

    /// Waits until `attempt` returns a value.
    pub(crate) fn wait<R>(
        &self,
        mut attempt: impl FnMut(bool) -> Option<R>,
    ) -> impl Future<Output = R> {
        let mut waiting = Waiting { queue: self, position: QueuePosition::default() };
        poll_fn(move |context| {
            let Waiting { queue, position } = &mut waiting;
            queue.poll(position, context, &mut attempt)
        })
    }

    /// Leaves the queue. If the leaving waiter has been notified, the next waiter is notified instead.
    pub(crate) fn leave(&self, position: &mut QueuePosition) {
        let Some(own) = position.position else { return };
        let mut waiters = self.lock();
        let place = waiters.queue.binary_search_by_key(&own, |each| each.0);
        let waker = place.ok().and_then(|index| waiters.queue.remove(index));
        self.count.store(waiters.queue.len(), Ordering::Relaxed);
        self.remove(position);
        drop(waiters);
        if waker.is_none() {
            self.notify_one();
        }
    }

    /// Wakes the first waiter, which then makes its attempt. The caller must have made an attempt possible before.
    pub(crate) fn notify_one(&self) {
        fence(Ordering::SeqCst);
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut waiters = self.lock();
        let first = waiters.queue.pop_front();
        self.count.store(waiters.queue.len(), Ordering::Relaxed);
        drop(waiters);
        if let Some((_, waker)) = first {
            waker.wake();
        }
    }

    /// Wakes all waiters.
    pub(crate) fn notify_all(&self) {
        let mut waiters = self.lock();
        let all = std::mem::take(&mut waiters.queue);
        self.count.store(0, Ordering::Relaxed);
        drop(waiters);
        all.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

/// Leaves the queue when the future is dropped.
struct Waiting<'q> {
    queue: &'q WaitQueue,
    position: QueuePosition,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.queue.leave(&mut self.position);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Wake;

    use super::*;

    /// Counts its wake-ups.
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[derive(Default)]
    struct Waiter {
        position: QueuePosition,
        count: Arc<Count>,
    }

    impl Waiter {
        fn poll(&mut self, queue: &WaitQueue, free: bool) -> bool {
            let waker = Waker::from(self.count.clone());
            let mut context = Context::from_waker(&waker);
            queue.poll(&mut self.position, &mut context, |_| free.then_some(())).is_ready()
        }

        fn wakes(&self) -> usize {
            self.count.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn a_waiter_that_was_too_late_stays_ahead_and_apart_from_others() {
        let queue = WaitQueue::default();
        let [mut first, mut second, mut third] = std::array::from_fn(|_| Waiter::default());
        assert!(!first.poll(&queue, false) && !second.poll(&queue, false));
        assert!(!third.poll(&queue, true), "it queues behind the others");
        (0..2).for_each(|_| queue.notify_one());
        // Both come too late, and queue again at the front, in order of arrival.
        assert!(!first.poll(&queue, false) && !second.poll(&queue, false));
        queue.notify_one();
        assert_eq!([first.wakes(), second.wakes(), third.wakes()], [2, 1, 0]);
        (0..2).for_each(|_| queue.notify_one());
        assert_eq!([first.wakes(), second.wakes(), third.wakes()], [2, 2, 1]);
        assert!(queue.has_late());
        assert!(first.poll(&queue, true) && second.poll(&queue, true) && third.poll(&queue, true));
        assert!(!queue.has_late());
        queue.notify_one();
        assert_eq!([first.wakes(), second.wakes(), third.wakes()], [2, 2, 1]);
    }

    #[test]
    fn a_notified_waiter_that_leaves_passes_the_notification_on() {
        let queue = WaitQueue::default();
        let [mut first, mut second, mut third] = std::array::from_fn(|_| Waiter::default());
        for waiter in [&mut first, &mut second, &mut third] {
            assert!(!waiter.poll(&queue, false));
        }
        queue.leave(&mut second.position);
        queue.notify_one();
        queue.leave(&mut first.position);
        assert_eq!([first.wakes(), second.wakes(), third.wakes()], [1, 0, 1]);
        assert!(!third.poll(&queue, false) && queue.has_late());
        queue.leave(&mut third.position);
        assert!(!queue.has_late());
    }
}
