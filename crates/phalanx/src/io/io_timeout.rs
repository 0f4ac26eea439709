//! Time limits on I/O.

use std::fmt;
use std::time::Duration;

/// The largest limit in nanoseconds (292 years), which means that there is none.
const UNLIMITED: u64 = u64::MAX >> 1;

/// A time limit on one I/O request, and whether shutdown ends the request.
///
/// It is one word, because each waiting operation of a connection stores one: twice the limit in nanoseconds, plus one
/// if shutdown ends the wait.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct IoTimeout(u64);

impl IoTimeout {
    /// No limit.
    pub const NONE: Self = Self(UNLIMITED << 1);

    /// Fails the I/O with [`TimedOut`](std::io::ErrorKind::TimedOut) after `limit`, counted from the start of
    /// the running cohort ([`now`](crate::time::now)). A wait ends up to 100 ms after its limit.
    pub const fn after(limit: Duration) -> Self {
        let nanos = limit.as_nanos();
        let nanos = if nanos < UNLIMITED as u128 { nanos as u64 } else { UNLIMITED };
        Self(nanos << 1)
    }

    /// The limit; [`Duration::MAX`] if there is none or it is more than 292 years.
    pub const fn duration(self) -> Duration {
        match self.0 >> 1 {
            UNLIMITED => Duration::MAX,
            nanos => Duration::from_nanos(nanos),
        }
    }

    /// Whether shutdown ends the wait.
    pub(crate) const fn ends_with_drain(self) -> bool {
        self.0 & 1 == 1
    }

    /// The limit minus `elapsed`, for several waits under one limit. The result is at least zero, and
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
        match self.duration() {
            Duration::MAX => self,
            limit => Self(Self::after(limit.saturating_sub(elapsed)).0 | self.0 & 1),
        }
    }

    /// Also ends the wait when the program begins to shut down. The I/O then fails with an error that
    /// [`Drained::is_cause_of`](crate::shutdown::Drained::is_cause_of) recognises. Use it for reads on idle
    /// connections.
    #[must_use]
    pub const fn until_shutdown(self) -> Self {
        Self(self.0 | 1)
    }
}

impl fmt::Debug for IoTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IoTimeout")
            .field("limit", &self.duration())
            .field("ends_with_drain", &self.ends_with_drain())
            .finish()
    }
}
