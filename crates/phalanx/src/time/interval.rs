//! A timer that fires repeatedly.

use std::time::Duration;

use super::{now, sleep};

/// Creates a timer that fires immediately, and then once per `period`.
///
/// ```
/// use phalanx::time::{interval, now};
/// use std::time::Duration;
///
/// # phalanx::Runtime::new().processors(1).block_on(|_| (), |()| async {
/// let period = Duration::from_millis(5);
/// let (begin, mut interval) = (now(), interval(period));
/// for _ in 0..3 {
///     interval.tick().await;
/// }
/// assert!(now() - begin >= 2 * period);
/// # })?;
/// # Ok::<(), phalanx::runtime::RunError>(())
/// ```
///
/// # Panics
/// If `period` is zero, or if called outside a processor.
pub fn interval(period: Duration) -> Interval {
    assert!(!period.is_zero(), "the period of an interval must be above zero");
    Interval { period, next: now() }
}

/// A timer that fires repeatedly, created by [`interval`]. Ticks stay multiples of the period: if several ticks were
/// missed, the first of them fires immediately and the others are skipped.
#[derive(Clone, Copy, Debug)]
pub struct Interval {
    period: Duration,
    next: Duration,
}

impl Interval {
    /// Waits until the timer fires, and returns the time at which it was due, on the clock of [`now`]. This method is
    /// cancel safe.
    ///
    /// # Panics
    /// If called outside a processor.
    pub async fn tick(&mut self) -> Duration {
        loop {
            let (due, now) = (self.next, now());
            if due <= now {
                self.next = following(due, now, self.period);
                return due;
            }
            sleep(due - now).await;
        }
    }

    /// The time between two ticks.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Restarts the timer, which next fires one period from now.
    ///
    /// # Panics
    /// If called outside a processor.
    pub fn reset(&mut self) {
        self.next = now().saturating_add(self.period);
    }
}

/// The first time after `now` that is a whole number of periods after `due`.
fn following(due: Duration, now: Duration, period: Duration) -> Duration {
    let overdue = (now - due).as_nanos() % period.as_nanos();
    // The difference is less than the period, and 64 bits are enough for 584 years.
    now.saturating_add(period - Duration::from_nanos(u64::try_from(overdue).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_times_are_skipped() {
        let ms = Duration::from_millis;
        assert_eq!(following(ms(10), ms(10), ms(5)), ms(15));
        assert_eq!(following(ms(10), ms(14), ms(5)), ms(15));
        assert_eq!(following(ms(10), ms(15), ms(5)), ms(20));
        assert_eq!(following(ms(10), ms(112), ms(5)), ms(115));
        assert_eq!(following(ms(10), ms(12), Duration::MAX), Duration::MAX);
    }
}
