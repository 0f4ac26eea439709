//! How long an operation waits for I/O.

use std::time::Duration;

/// How long to wait for I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    pub(super) limit: Duration,
    pub(super) ends_with_drain: bool,
}

impl Patience {
    /// Wait for ever.
    pub const ENDLESS: Self = Self { limit: Duration::MAX, ends_with_drain: false };

    /// Waits for at most `limit`; then the I/O fails with [`TimedOut`](std::io::ErrorKind::TimedOut). The
    /// limit counts from the time of the running cohort ([`now`](crate::now)) and is checked every tenth of a
    /// second.
    pub const fn limit(limit: Duration) -> Self {
        Self { limit, ends_with_drain: false }
    }

    /// How long that is; [`Duration::MAX`] is for ever.
    pub const fn duration(self) -> Duration {
        self.limit
    }

    /// The remainder after `elapsed`, for several waits under one limit. It is never negative, and unlimited
    /// stays unlimited.
    ///
    /// ```
    /// use phalanx::Patience;
    /// use std::time::Duration;
    ///
    /// let [one, two, three] = [1, 2, 3].map(Duration::from_secs);
    /// assert_eq!(Patience::limit(three).after(one), Patience::limit(two));
    /// assert_eq!(Patience::limit(one).after(two), Patience::limit(Duration::ZERO));
    /// assert_eq!(Patience::ENDLESS.after(one), Patience::ENDLESS);
    /// ```
    #[must_use]
    pub const fn after(self, elapsed: Duration) -> Self {
        match self.limit {
            Duration::MAX => self,
            limit => Self { limit: limit.saturating_sub(elapsed), ..self },
        }
    }

    /// And no longer than until the program drains; then the I/O fails with an error that
    /// [`Drained::caused`](crate::Drained::caused) recognises. For connections that are idle.
    #[must_use]
    pub const fn or_drain(self) -> Self {
        Self { ends_with_drain: true, ..self }
    }
}
