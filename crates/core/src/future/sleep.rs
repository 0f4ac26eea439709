//! Timers: sleeping and timeouts.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::panic::catch_panic;
use crate::processor;
use crate::processor::home::run_home;
use crate::processor::processor::Processor;
use crate::queue::timer_wheel::TimerKey;

/// The time of the running cohort, measured from an unspecified moment before the program's start. The clock is read
/// once per cohort, not on each call.
///
/// # Panics
/// If called outside a processor.
#[inline]
pub fn now() -> Duration {
    processor::current(|p| Duration::from_nanos(p.now()))
}

/// Suspends the operation for `duration`. The resolution is one millisecond, rounded up. A sleep that would end beyond
/// the range of the program's clock (584 years), such as one of [`Duration::MAX`], arms no timer and never ends.
///
/// # Panics
/// If called outside a processor.
pub fn sleep(duration: Duration) -> Sleep {
    processor::current(|p| Sleep {
        deadline: p.deadline_after(duration),
        timer: None,
        identity: p.identity,
    })
}

/// The future of [`sleep`]. It belongs to the processor that created it.
///
/// # Panics
/// If it is awaited on another processor.
#[must_use = "futures do nothing unless awaited"]
pub struct Sleep {
    deadline: u64,
    timer: Option<TimerKey>,
    identity: u32,
}

impl Sleep {
    /// Restarts the timer so that it fires `duration` from now. An operation that is already waiting is woken then,
    /// even if it does not poll the future again.
    ///
    /// # Panics
    /// If called outside the processor that created it.
    pub fn reset(&mut self, duration: Duration) {
        processor::current(|p| {
            self.check(p);
            self.deadline = p.deadline_after(duration);
            let mut wheel = p.waiting.timers.borrow_mut();
            let waker = self.timer.take().and_then(|key| wheel.disarm(key));
            match waker {
                Some(waker) if self.deadline < u64::MAX => {
                    self.timer = Some(wheel.arm(self.deadline, waker));
                }
                waker => {
                    // Dropped after the borrow, because the destructor of a foreign waker is foreign code.
                    std::mem::drop(wheel);
                    catch_panic(|| drop(waker));
                }
            }
        });
    }

    fn check(&self, processor: &Processor) {
        assert_eq!(
            processor.identity, self.identity,
            "a timer was used on a processor other than the one that created it; create another with `sleep`"
        );
    }

    fn disarm(&mut self) {
        let Some(key) = self.timer.take() else { return };
        // Dropped after the borrow, because the destructor of a foreign waker is foreign code.
        let disarm = move |p: &Processor| {
            let waker = p.waiting.timers.borrow_mut().disarm(key);
            catch_panic(|| drop(waker));
        };
        run_home(self.identity, disarm);
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        processor::current(|p: &Processor| {
            self.check(p);
            if p.now() >= self.deadline {
                self.disarm();
                return Poll::Ready(());
            }
            if self.deadline == u64::MAX {
                return Poll::Pending;
            }
            // Cloned before the borrow and dropped after it, because a foreign waker runs foreign code.
            let mut waker = context.waker().clone();
            let mut wheel = p.waiting.timers.borrow_mut();
            if !self.timer.is_some_and(|key| wheel.replace_waker(key, &mut waker)) {
                self.timer = Some(wheel.arm(self.deadline, waker));
            }
            Poll::Pending
        })
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.disarm();
    }
}

/// The error of a future that took longer than its timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("timed out")]
pub struct TimedOut;

/// Awaits `future` for at most `duration`, then drops it.
///
/// # Errors
/// [`TimedOut`] if the time expires first.
///
/// # Panics
/// If called outside a processor.
pub async fn timeout<F: Future>(duration: Duration, future: F) -> Result<F::Output, TimedOut> {
    let mut future = std::pin::pin!(future);
    let mut sleep = None;
    std::future::poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        let sleep = sleep.get_or_insert_with(|| self::sleep(duration));
        Pin::new(sleep).poll(context).map(|()| Err(TimedOut))
    })
    .await
}

/// Lets the other queued operations of this stage run first.
pub fn yield_now() -> impl Future<Output = ()> {
    let mut yielded = false;
    std::future::poll_fn(move |context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
}
