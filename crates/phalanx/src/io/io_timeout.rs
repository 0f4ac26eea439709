//! Time limits on I/O.

use std::time::Duration;

/// A time limit on one I/O request, and whether shutdown ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoTimeout {
    pub(super) limit: Duration,
    pub(super) ends_with_drain: bool,
}

impl IoTimeout {
    /// No limit.
    pub const NONE: Self = Self { limit: Duration::MAX, ends_with_drain: false };

    /// Fails the I/O with [`TimedOut`](std::io::ErrorKind::TimedOut) after `limit`, counted from the start of
    /// the running cohort ([`now`](crate::time::now)). Limits are checked every 100 ms.
    pub const fn after(limit: Duration) -> Self {
        Self { limit, ends_with_drain: false }
    }

    /// The limit; [`Duration::MAX`] for none.
    pub const fn duration(self) -> Duration {
        self.limit
    }

    /// The limit less `elapsed`, for several waits under one limit. It is never negative, and
    /// [`NONE`](Self::NONE) stays unlimited.
    ///
    /// ```
    /// use phalanx::net::IoTimeout;
    /// use std::time::Duration;
    ///
    /// let [one, two, three] = [1, 2, 3].map(Duration::from_secs);
    /// assert_eq!(IoTimeout::after(three).remaining(one), IoTimeout::after(two));
    /// assert_eq!(IoTimeout::after(one).remaining(two), IoTimeout::after(Duration::ZERO));
    /// assert_eq!(IoTimeout::NONE.remaining(one), IoTimeout::NONE);
    /// ```
    #[must_use]
    pub const fn remaining(self, elapsed: Duration) -> Self {
        match self.limit {
            Duration::MAX => self,
            limit => Self { limit: limit.saturating_sub(elapsed), ..self },
        }
    }

    /// Also ends the wait when the program begins to shut down. The I/O then fails with an error that
    /// [`Drained::caused`](crate::shutdown::Drained::caused) recognises. For idle connections.
    #[must_use]
    pub const fn until_shutdown(self) -> Self {
        Self { ends_with_drain: true, ..self }
    }
}
