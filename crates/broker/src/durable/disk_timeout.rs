//! How long to wait for the disk: of the time in which the broker was awake. A laptop that was suspended, or a machine
//! that stood still, has kept nobody waiting, and nobody is sent away when it wakes. So time is counted in slices, one
//! for each look, and however late a look comes it counts for one.

use std::time::Duration;

use phalanx::sleep;
use phalanx::time::now;

/// Who can be told that it did not go waits for the disk for so long; and who has published for as long as the disk takes
/// anything in such a time.
pub(crate) const DISK_TIMEOUT: Duration = Duration::from_secs(5);

/// So much time counts at most from one look to the next.
pub(crate) const MAX_TICK: Duration = Duration::from_millis(250);

/// Time in which somebody was awake who looks again and again.
pub(crate) struct AwakeClock {
    looked: Duration,
    spent: Duration,
}

impl AwakeClock {
    pub(crate) fn since(now: Duration) -> Self {
        Self { looked: now, spent: Duration::ZERO }
    }

    /// Looks again, and says how much has been so far.
    pub(crate) fn tick(&mut self, now: Duration) -> Duration {
        self.spent += now.saturating_sub(self.looked).min(MAX_TICK);
        self.looked = now;
        self.spent
    }
}

/// Waits for [`DISK_TIMEOUT`].
pub(crate) async fn disk_timeout() {
    let mut awake = AwakeClock::since(now());
    while awake.tick(now()) < DISK_TIMEOUT {
        sleep(MAX_TICK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_slept_has_not_waited() {
        let ms = Duration::from_millis;
        let mut awake = AwakeClock::since(ms(1000));
        assert_eq!(awake.tick(ms(1100)), ms(100));
        assert_eq!(awake.tick(ms(1300)), ms(300));
        assert_eq!(awake.tick(ms(60_000)), ms(300) + MAX_TICK, "it was suspended for a minute");
        assert_eq!(awake.tick(ms(60_010)), ms(310) + MAX_TICK);
        let looks = (1..).take_while(|look| awake.tick(ms(60_010 + look * 250)) < DISK_TIMEOUT);
        assert_eq!(looks.count(), 17, "and who is awake has no more than that");
    }
}
