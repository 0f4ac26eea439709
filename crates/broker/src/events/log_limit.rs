//! The rate limit of repeated log lines.

/// Rate limit of one kind of log line: exponential backoff. A line is due at a check that finds an increased
/// count; while the count keeps increasing, each interval is twice the previous one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogLimit {
    count: u64,
    /// The interval between the last line and the next one, and what remains of it, in checks.
    pause: u32,
    remaining: u32,
}

impl LogLimit {
    /// Checks `count` once. Returns its increase since the last line if a line is due. Intervals are at most
    /// `max_pause` checks. The last check ignores the limit.
    pub(crate) fn check(&mut self, count: u64, max_pause: u32, is_last: bool) -> Option<u64> {
        self.remaining = self.remaining.saturating_sub(1);
        if self.remaining > 0 && !is_last {
            return None;
        }
        let increase = count - self.count;
        if increase == 0 {
            // Reset the backoff, so that after a quiet period a line is due immediately.
            self.pause = 0;
            return None;
        }
        self.count = count;
        self.pause = (self.pause * 2).clamp(1, max_pause);
        self.remaining = self.pause;
        Some(increase)
    }
}
