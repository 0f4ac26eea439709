//! How long to wait for the disk: of the time in which the broker was awake. A laptop that was suspended, or a machine
//! that stood still, has kept nobody waiting, and nobody is sent away when it wakes. So time is counted in slices, one
//! for each look, and however late a look comes it counts for one.

use std::time::Duration;

use phalanx::sleep;
use phalanx::time::now;

/// Who can be told that it did not go waits for the disk for so long; and who has published for as long as the disk takes
/// anything in such a time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// So much time counts at most from one look to the next.
pub(crate) const SLICE: Duration = Duration::from_millis(250);

/// Time in which somebody was awake who looks again and again.
pub(crate) struct Awake {
    looked: Duration,
    spent: Duration,
}

impl Awake {
    pub(crate) fn since(now: Duration) -> Self {
        Self { looked: now, spent: Duration::ZERO }
    }

    /// Looks again, and says how much has been so far.
    pub(crate) fn look(&mut self, now: Duration) -> Duration {
        self.spent += now.saturating_sub(self.looked).min(SLICE);
        self.looked = now;
        self.spent
    }
}

/// Waits for [`PATIENCE`].
pub(crate) async fn patience() {
    let mut awake = Awake::since(now());
    while awake.look(now()) < PATIENCE {
        sleep(SLICE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_slept_has_not_waited() {
        let ms = Duration::from_millis;
        let mut awake = Awake::since(ms(1000));
        assert_eq!(awake.look(ms(1100)), ms(100));
        assert_eq!(awake.look(ms(1300)), ms(300));
        assert_eq!(awake.look(ms(60_000)), ms(300) + SLICE, "it was suspended for a minute");
        assert_eq!(awake.look(ms(60_010)), ms(310) + SLICE);
        let looks = (1..).take_while(|look| awake.look(ms(60_010 + look * 250)) < PATIENCE);
        assert_eq!(looks.count(), 17, "and who is awake has no more than that");
    }
}
