//! A timer for a deadline that moves.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::{Sleep, now, sleep};

/// A timer for a deadline that moves often, such as the idle timeout of a connection. A later deadline costs no change of
/// the timer: it is set again only when it ends, or for an earlier deadline.
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
    /// When the timer ends.
    end: Duration,
}

impl Deadline {
    /// Sets the timer to a time, as [`now`] counts it.
    ///
    /// # Panics
    /// Outside of a processor.
    pub fn new(at: Duration) -> Self {
        Self { timer: sleep(at.saturating_sub(now())), end: at }
    }

    /// Ready once `at` has passed. Otherwise the task is woken then, or earlier.
    ///
    /// # Panics
    /// On a processor other than the one that made the timer.
    pub fn poll(&mut self, at: Duration, context: &mut Context<'_>) -> Poll<()> {
        if at < self.end {
            self.set(at);
        }
        while Pin::new(&mut self.timer).poll(context).is_ready() {
            if now() >= at {
                return Poll::Ready(());
            }
            self.set(at);
        }
        Poll::Pending
    }

    fn set(&mut self, at: Duration) {
        self.timer.reset(at.saturating_sub(now()));
        self.end = at;
    }
}
