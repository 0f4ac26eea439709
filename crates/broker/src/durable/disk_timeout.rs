//! The timeout for the disk. It counts only time during which the machine was not suspended, so no client is disconnected
//! after a resume. Time is measured in ticks, and each counts at most [`MAX_TICK`].

use std::time::Duration;

use phalanx::sleep;
use phalanx::time::now;

/// Maximum time that CONNECT, SUBSCRIBE and UNSUBSCRIBE wait for the disk. Publishers wait as long as the disk makes
/// progress within this time. If NATS has a copy of the journal, [`ELECTION_TIME`](crate::kept::state::ELECTION_TIME)
/// applies instead.
pub(crate) const DISK_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum time that one tick counts.
pub(crate) const MAX_TICK: Duration = Duration::from_millis(250);

/// A clock that stops while the machine is suspended.
pub(crate) struct AwakeClock {
    last_tick: Duration,
    elapsed: Duration,
}

impl AwakeClock {
    pub(crate) fn since(now: Duration) -> Self {
        Self { last_tick: now, elapsed: Duration::ZERO }
    }

    /// Advances the clock, and returns the time elapsed so far.
    pub(crate) fn tick(&mut self, now: Duration) -> Duration {
        self.elapsed += now.saturating_sub(self.last_tick).min(MAX_TICK);
        self.last_tick = now;
        self.elapsed
    }
}

/// Completes after `limit`, on an [`AwakeClock`].
pub(crate) async fn disk_timeout(limit: Duration) {
    let mut awake = AwakeClock::since(now());
    while awake.tick(now()) < limit {
        sleep(MAX_TICK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspended_time_does_not_count() {
        let ms = Duration::from_millis;
        let mut awake = AwakeClock::since(ms(1000));
        assert_eq!(awake.tick(ms(1100)), ms(100));
        assert_eq!(awake.tick(ms(1300)), ms(300));
        assert_eq!(
            awake.tick(ms(60_000)),
            ms(300) + MAX_TICK,
            "the machine was suspended for a minute"
        );
        assert_eq!(awake.tick(ms(60_010)), ms(310) + MAX_TICK);
        let ticks = (1..).take_while(|tick| awake.tick(ms(60_010 + tick * 250)) < DISK_TIMEOUT);
        assert_eq!(ticks.count(), 17, "an awake process gets no further extension");
    }
}
