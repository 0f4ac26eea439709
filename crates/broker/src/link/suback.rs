//! The SUBACK that the login did not wait for, because the remote broker sent many messages before it.

use std::cell::Cell;
use std::io;
use std::time::Duration;

/// The time by which SUBACK has to arrive. Times are those of the runtime's clock.
#[derive(Debug)]
pub(super) struct AwaitedSuback {
    /// Maximum time after the last retained message.
    timeout: Duration,
    /// `None` once it has arrived.
    due: Cell<Option<Duration>>,
}

impl AwaitedSuback {
    /// For a SUBACK that is outstanding at `now`, or has arrived.
    pub(super) fn new(is_outstanding: bool, timeout: Duration, now: Duration) -> Self {
        let due = is_outstanding.then(|| now.saturating_add(timeout));
        Self { timeout, due: Cell::new(due) }
    }

    pub(super) fn arrived(&self) {
        self.due.set(None);
    }

    /// The remote broker still sends retained messages.
    pub(super) fn postpone(&self, now: Duration) {
        if self.due.get().is_some() {
            self.due.set(Some(now.saturating_add(self.timeout)));
        }
    }

    /// Time until it is due; `None` if it has arrived.
    ///
    /// # Errors
    /// It did not arrive in time.
    pub(super) fn left(&self, now: Duration) -> io::Result<Option<Duration>> {
        match self.due.get() {
            Some(due) if due <= now => {
                Err(io::Error::other("the remote broker does not answer SUBSCRIBE"))
            }
            due => Ok(due.map(|due| due - now)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suback_is_due_after_the_last_retained_message() {
        let at = Duration::from_secs;
        let own = AwaitedSuback::new(true, at(10), at(0));
        assert_eq!(own.left(at(9)).unwrap(), Some(at(1)));
        own.postpone(at(9));
        assert_eq!(own.left(at(10)).unwrap(), Some(at(9)));
        assert!(own.left(at(19)).is_err());
        own.arrived();
        own.postpone(at(19));
        assert_eq!(own.left(at(99)).unwrap(), None);
        assert_eq!(AwaitedSuback::new(false, at(10), at(0)).left(at(99)).unwrap(), None);
    }
}
