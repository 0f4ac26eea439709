//! The deadline of an answer for which the login did not wait.

use std::cell::Cell;
use std::io;
use std::time::Duration;

/// The deadline of an answer, on the runtime's clock.
#[derive(Debug)]
pub(super) struct AnswerDeadline {
    /// The packets to be answered, as named in errors.
    what: &'static str,
    /// Maximum time after the last sign of progress.
    timeout: Duration,
    /// `None` once the answer has arrived.
    due: Cell<Option<Duration>>,
}

impl AnswerDeadline {
    /// Creates the deadline of an answer to `what`, which is outstanding at `now` or has already arrived.
    pub(super) fn new(
        what: &'static str,
        is_outstanding: bool,
        timeout: Duration,
        now: Duration,
    ) -> Self {
        let due = is_outstanding.then(|| now.saturating_add(timeout));
        Self { what, timeout, due: Cell::new(due) }
    }

    pub(super) fn is_outstanding(&self) -> bool {
        self.due.get().is_some()
    }

    pub(super) fn complete(&self) {
        self.due.set(None);
    }

    /// Postpones the deadline, because the remote broker has made progress.
    pub(super) fn postpone(&self, now: Duration) {
        if self.due.get().is_some() {
            self.due.set(Some(now.saturating_add(self.timeout)));
        }
    }

    /// Time until the answer is due; `None` if it has arrived.
    ///
    /// # Errors
    /// The answer did not arrive in time.
    pub(super) fn time_left(&self, now: Duration) -> io::Result<Option<Duration>> {
        match self.due.get() {
            Some(due) if due <= now => {
                Err(io::Error::other(format!("the remote broker does not answer {}", self.what)))
            }
            due => Ok(due.map(|due| due - now)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_due_after_the_last_progress() {
        let at = Duration::from_secs;
        let own = AnswerDeadline::new("SUBSCRIBE", true, at(10), at(0));
        assert_eq!(own.time_left(at(9)).unwrap(), Some(at(1)));
        own.postpone(at(9));
        assert_eq!(own.time_left(at(10)).unwrap(), Some(at(9)));
        assert!(own.time_left(at(19)).is_err());
        own.complete();
        own.postpone(at(19));
        assert_eq!((own.time_left(at(99)).unwrap(), own.is_outstanding()), (None, false));
        let completed = AnswerDeadline::new("SUBSCRIBE", false, at(10), at(0));
        assert_eq!(completed.time_left(at(99)).unwrap(), None);
    }
}
