//! Limits the deliveries in flight from the router to the sessions, over all processors.
//!
//! The input of each publisher is limited, but its fan-out is not: a thousand publishers to all clients would make the
//! router buffer all their deliveries at once. Therefore the router stops at a limit and returns the messages that it has
//! not routed. The publisher waits here, and the broker stops reading from it. Sessions accept deliveries without waiting
//! for a client or the disk, so permits are always released.
//!
//! Waiting publishers are served in order. Each is granted a permit for its expected number of deliveries,
//! corrected to the actual number after routing. While a publisher waits, others without a permit have to
//! wait, too.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use phalanx::sync::oneshot;

/// The limiter. Clones share it.
#[derive(Clone)]
pub(crate) struct DeliveryLimiter(Arc<Shared>);

struct Shared {
    limit: usize,
    /// Number of deliveries covered by permits. Increased by the router, and under the lock when permits are granted.
    count: AtomicUsize,
    /// The maximum of `count` so far.
    #[cfg(test)]
    peak: AtomicUsize,
    /// Number of waiting publishers. Sequentially consistent with `count`: a releaser reads it after `count`,
    /// a waiter reads `count` after it.
    waiting: AtomicUsize,
    queue: Mutex<VecDeque<Waiting>>,
}

struct Waiting {
    expected: usize,
    grant: oneshot::Sender<Permit>,
}

/// Permission for a number of deliveries, released on drop.
pub(crate) struct Permit {
    limiter: DeliveryLimiter,
    count: usize,
}

impl DeliveryLimiter {
    /// A limiter of `limit` deliveries.
    pub(crate) fn new(limit: usize) -> Self {
        Self(Arc::new(Shared {
            limit,
            count: AtomicUsize::new(0),
            #[cfg(test)]
            peak: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            queue: Mutex::default(),
        }))
    }

    /// A permit for no deliveries.
    pub(crate) fn empty_permit(&self) -> Permit {
        Permit { limiter: self.clone(), count: 0 }
    }

    /// Whether a publisher with this permit, or none, has to wait behind others.
    pub(crate) fn must_wait(&self, permit: Option<&Permit>) -> bool {
        permit.is_none() && self.has_waiting()
    }

    fn has_waiting(&self) -> bool {
        self.0.waiting.load(Ordering::SeqCst) > 0
    }

    /// The maximum number of deliveries in flight so far.
    #[cfg(test)]
    pub(crate) fn peak(&self) -> usize {
        self.0.peak.load(Ordering::Relaxed)
    }

    /// Waits for a permit for `messages` of about `each` deliveries. Returns `None` at shutdown.
    pub(crate) async fn acquire(&self, messages: usize, each: usize) -> Option<Permit> {
        let (grant, granted) = oneshot::shared();
        let expected = messages.saturating_mul(each).clamp(1, self.0.limit);
        {
            let mut queue = self.0.queue();
            queue.push_back(Waiting { expected, grant });
            self.0.waiting.store(queue.len(), Ordering::SeqCst);
        }
        self.admit_waiting();
        granted.await
    }

    /// Grants available permits to waiting publishers. If nothing is in flight, the first one always gets a permit.
    fn admit_waiting(&self) {
        let mut granted = Vec::new();
        {
            let mut queue = self.0.queue();
            while let Some(first) = queue.front() {
                let count = self.0.count.load(Ordering::SeqCst);
                let is_cancelled = first.grant.is_closed();
                if !is_cancelled && count > 0 && count + first.expected > self.0.limit {
                    break;
                }
                let Some(Waiting { expected, grant }) = queue.pop_front() else { break };
                if !is_cancelled {
                    self.0.count.fetch_add(expected, Ordering::SeqCst);
                    granted.push((grant, expected));
                }
            }
            self.0.waiting.store(queue.len(), Ordering::SeqCst);
        }
        // Outside the lock: dropping an unclaimed permit grants others.
        for (grant, count) in granted {
            grant.send(Permit { limiter: self.clone(), count });
        }
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit {
    /// Number of further deliveries permitted after `deliveries` were made with this permit: the rest of this permit and
    /// the unused part of the limit.
    pub(crate) fn available(&self, deliveries: usize) -> usize {
        let others = self.limiter.0.count.load(Ordering::SeqCst) - self.count;
        self.limiter.0.limit.saturating_sub(others).saturating_sub(deliveries)
    }

    /// Whether no other deliveries are in flight.
    pub(crate) fn is_alone(&self) -> bool {
        self.limiter.0.count.load(Ordering::SeqCst) == self.count
    }

    /// Adds another permit to this one.
    pub(crate) fn merge(&mut self, mut other: Self) {
        self.count += std::mem::take(&mut other.count);
    }

    /// Corrects the permit to the actual number of deliveries.
    pub(crate) fn resize(&mut self, deliveries: usize) {
        let before = std::mem::replace(&mut self.count, deliveries);
        let shared = &self.limiter.0;
        if before < deliveries {
            let more = deliveries - before;
            let _before = shared.count.fetch_add(more, Ordering::SeqCst);
            #[cfg(test)]
            shared.peak.fetch_max(_before + more, Ordering::Relaxed);
        } else {
            self.limiter.release(before - deliveries);
        }
    }
}

impl DeliveryLimiter {
    fn release(&self, count: usize) {
        if count > 0 {
            self.0.count.fetch_sub(count, Ordering::SeqCst);
        }
        if self.has_waiting() {
            self.admit_waiting();
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.limiter.release(self.count);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::sync::atomic::AtomicBool;
    use std::task::{Context, Poll, Waker};
    use std::thread;

    use super::*;

    fn poll(wait: Pin<&mut impl Future<Output = Option<Permit>>>) -> Option<Permit> {
        match wait.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(permit) => permit,
            Poll::Pending => None,
        }
    }

    #[test]
    fn waiters_are_admitted_in_order() {
        let delivery_limiter = DeliveryLimiter::new(100);
        let mut batch = delivery_limiter.empty_permit();
        assert_eq!((batch.available(0), batch.available(30)), (100, 70));
        batch.resize(130);
        assert_eq!((batch.available(0), delivery_limiter.empty_permit().available(0)), (100, 0));
        let (mut one, mut two) =
            (pin!(delivery_limiter.acquire(6, 10)), pin!(delivery_limiter.acquire(6, 10)));
        let mut cancelled = Box::pin(delivery_limiter.acquire(100, 1));
        let mut last = pin!(delivery_limiter.acquire(1, 1));
        assert!(poll(one.as_mut()).is_none() && poll(two.as_mut()).is_none());
        assert!(poll(cancelled.as_mut()).is_none() && poll(last.as_mut()).is_none());
        drop(cancelled);
        batch.resize(40);
        let mut first = poll(one.as_mut()).expect("below the limit");
        assert!(poll(two.as_mut()).is_none() && delivery_limiter.has_waiting(), "at the limit");
        // Fewer deliveries than expected, merged into the batch's permit.
        first.resize(30);
        assert!(poll(two.as_mut()).is_none());
        batch.merge(first);
        drop(batch);
        let second = poll(two.as_mut()).expect("no other delivery is in progress");
        assert!(poll(last.as_mut()).is_some(), "a dropped waiter does not block others");
        assert!(!delivery_limiter.has_waiting());
        drop(second);
        assert_eq!(
            (delivery_limiter.empty_permit().available(0), delivery_limiter.peak()),
            (100, 130)
        );
    }

    #[test]
    fn a_request_above_the_limit_runs_alone() {
        let delivery_limiter = DeliveryLimiter::new(10);
        let mut batch = delivery_limiter.empty_permit();
        batch.resize(1);
        let mut much = pin!(delivery_limiter.acquire(10, 100));
        assert!(poll(much.as_mut()).is_none());
        drop(batch);
        assert!(poll(much.as_mut()).is_some());
    }

    /// No wake-up is lost if a publisher starts to wait during a release: threads that wait for each other's permits all
    /// finish.
    #[test]
    fn no_waiter_is_forgotten() {
        let delivery_limiter = DeliveryLimiter::new(3);
        let wait = |expected| {
            let is_woken = Arc::new((AtomicBool::new(false), thread::current()));
            struct Wake(Arc<(AtomicBool, thread::Thread)>);
            impl std::task::Wake for Wake {
                fn wake(self: Arc<Self>) {
                    self.0.0.store(true, Ordering::SeqCst);
                    self.0.1.unpark();
                }
            }
            let waker = Waker::from(Arc::new(Wake(is_woken.clone())));
            let mut wait = pin!(delivery_limiter.acquire(1, expected));
            loop {
                if let Poll::Ready(permit) = wait.as_mut().poll(&mut Context::from_waker(&waker)) {
                    return permit;
                }
                while !is_woken.0.swap(false, Ordering::SeqCst) {
                    thread::park();
                }
            }
        };
        thread::scope(|scope| {
            for n in 0..4 {
                scope.spawn(move || {
                    for turn in 0..2000 {
                        let mut permit =
                            wait(1 + (n + turn) % 3).expect("the broker accepts the connection");
                        permit.resize(turn % 5);
                    }
                });
            }
        });
        assert_eq!(delivery_limiter.empty_permit().available(0), 3);
    }
}
