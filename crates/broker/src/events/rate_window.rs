//! The rate limit of one class of events.

use std::time::Duration;

/// The number of lines in the current second, and of suppressed events.
#[derive(Debug, Default)]
pub(super) struct RateWindow {
    second: u64,
    lines: u32,
    suppressed: u64,
}

impl RateWindow {
    /// Whether a line may be written at `now`, at most `max_lines` per second. Otherwise the event is counted.
    pub(super) fn admit(&mut self, now: Duration, max_lines: u32) -> bool {
        self.advance(now);
        let is_admitted = self.lines < max_lines;
        match is_admitted {
            true => self.lines += 1,
            false => self.suppressed += 1,
        }
        is_admitted
    }

    /// Counts an event that could not be written.
    pub(super) fn count_lost(&mut self) {
        self.suppressed += 1;
    }

    /// Takes the number of events suppressed in the last second with any; `None` if there were none, or that second is
    /// not over.
    pub(super) fn take_suppressed(&mut self, now: Duration) -> Option<u64> {
        if now.as_secs() == self.second || self.suppressed == 0 {
            return None;
        }
        Some(std::mem::take(&mut self.suppressed))
    }

    fn advance(&mut self, now: Duration) {
        if self.second != now.as_secs() {
            (self.second, self.lines) = (now.as_secs(), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_beyond_the_rate_are_counted() {
        let mut window = RateWindow::default();
        let at = Duration::from_secs;
        let lines = (0..7).filter(|_| window.admit(at(3), 5)).count();
        assert_eq!((lines, window.take_suppressed(at(3))), (5, None), "the second is not over");
        assert_eq!((window.take_suppressed(at(4)), window.take_suppressed(at(4))), (Some(2), None));
        assert!(window.admit(at(4), 5));
        window.count_lost();
        assert_eq!(window.take_suppressed(at(9)), Some(1));
    }
}
