//! A timer for a deadline that moves.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use phalanx_core::ProcessorId;

use super::{Sleep, now, sleep};

/// A timer for a deadline that moves often, such as the idle timeout of a connection. Moving the deadline to a later
/// time does not touch the timer, which is rearmed only when it fires or for an earlier deadline.
///
/// ```
/// use phalanx::time::{Deadline, now};
/// use std::future::poll_fn;
/// use std::time::Duration;
///
/// # phalanx::Runtime::new().processors(1).block_on(|_| (), |()| async {
/// let mut timer = Deadline::new(now() + Duration::from_millis(2));
/// let at = now() + Duration::from_millis(5);
/// poll_fn(|context| timer.poll(at, context)).await;
/// assert!(now() >= at);
/// # })?;
/// # Ok::<(), phalanx::runtime::RunError>(())
/// ```
pub struct Deadline {
    timer: Sleep,
    /// The time at which the timer fires.
    end: Duration,
    /// The task that the timer wakes, and its processor.
    waits: Option<(Waker, ProcessorId)>,
}

impl Deadline {
    /// Creates a timer for the time `at`, on the clock of [`now`].
    ///
    /// # Panics
    /// If called outside a processor.
    pub fn new(at: Duration) -> Self {
        Self { timer: sleep(at.saturating_sub(now())), end: at, waits: None }
    }

    /// Ready once `at` has passed. Otherwise the task will be woken at that time or earlier.
    ///
    /// # Panics
    /// If called on a processor other than the one that created the timer.
    pub fn poll(&mut self, at: Duration, context: &mut Context<'_>) -> Poll<()> {
        if at < self.end {
            self.set(at);
        } else if self.will_wake(context) {
            return Poll::Pending;
        }
        while Pin::new(&mut self.timer).poll(context).is_ready() {
            if now() >= at {
                return Poll::Ready(());
            }
            self.set(at);
        }
        if self.waits.as_ref().is_none_or(|(waker, _)| !waker.will_wake(context.waker())) {
            self.waits = ProcessorId::current().map(|home| (context.waker().clone(), home));
        }
        Poll::Pending
    }

    /// Whether the timer is armed and will wake this task.
    #[inline]
    fn will_wake(&self, context: &Context<'_>) -> bool {
        let Some((waker, home)) = &self.waits else { return false };
        waker.will_wake(context.waker())
            && ProcessorId::current() == Some(*home)
            && now() < self.end
    }

    fn set(&mut self, at: Duration) {
        self.timer.reset(at.saturating_sub(now()));
        self.end = at;
    }
}
