//! Deadlines: the time after which operations of a session are no longer started.
//!
//! A deadline is a number in the session's record, checked before one of its operations starts. Once the session spans
//! processors, which share one clock, the number is in their [group](crate::session::group).

use std::time::Duration;

use crate::request::session::Session;
use crate::session::table::NO_DEADLINE;

impl Session {
    /// Creates a session whose operations must start within `duration`, or earlier if the running operation's session
    /// has an earlier deadline.
    ///
    /// # Panics
    /// If called outside a processor.
    pub fn with_deadline(duration: Duration) -> Self {
        let session = Self::new();
        session.set_deadline(duration);
        session.on(|p, index| {
            let outer = p.waiting.sessions.deadline(p.waiting.sessions.current());
            let deadline = p.waiting.sessions.deadline(index).min(outer);
            p.waiting.sessions.set_deadline(index, deadline);
        });
        session
    }

    /// Sets the deadline to `duration` after the running cohort's [`now`](crate::now). Operations of the session that
    /// have not started by then never start: their calls fail with
    /// [`CallError::DeadlinePassed`](crate::CallError::DeadlinePassed). Started operations continue. Operations that
    /// they invoke, on any processor, belong to the same session and have the same deadline. A time beyond the range of
    /// the clock (584 years), such as [`Duration::MAX`], means no deadline.
    ///
    /// ```
    /// use std::time::Duration;
    /// use phalanx_core::Session;
    ///
    /// # let processor = phalanx_core::Graph::new().build(1).remove(0).build(Box::new(|| ()));
    /// # processor.enter(|| {
    /// let request = Session::new();
    /// request.set_deadline(Duration::from_millis(200));
    /// assert_eq!(request.time_left(), Some(Duration::from_millis(200)));
    /// # });
    /// ```
    pub fn set_deadline(&self, duration: Duration) {
        self.on(|p, index| {
            let deadline = p.deadline_after(duration);
            p.waiting.sessions.set_deadline(index, deadline);
        });
    }

    /// The time from the running cohort's [`now`](crate::now) until the deadline; `None` without a deadline. Pass it on
    /// to other services so that they do not process abandoned requests.
    pub fn time_left(&self) -> Option<Duration> {
        let left = self.on(|p, index| match p.waiting.sessions.deadline(index) {
            NO_DEADLINE => None,
            deadline => Some(Duration::from_nanos(deadline.saturating_sub(p.now()))),
        });
        left.flatten()
    }
}
