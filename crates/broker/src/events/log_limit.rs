//! The rate limit of repeated log lines.

/// Rate limit of one kind of log line: exponential backoff. A line is due at a check that finds an increased
/// count; while the count keeps increasing, each interval is twice the previous one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogLimit {
    count: u64,
    /// The interval between the last line and the next one, and the rest of it, in checks.
    pause: u32,
    left: u32,
}

impl LogLimit {
    /// Checks `count` once. Returns its increase since the last line if a line is due. Intervals are at most
    /// `longest` checks. The last check ignores the limit.
    pub(crate) fn due(&mut self, count: u64, longest: u32, is_last: bool) -> Option<u64> {
        self.left = self.left.saturating_sub(1);
        if self.left > 0 && !is_last {
            return None;
        }
        let more = count - self.count;
        if more == 0 {
            // Reset the backoff, so that after a quiet period a line is due immediately.
            self.pause = 0;
            return None;
        }
        self.count = count;
        self.pause = (self.pause * 2).clamp(1, longest);
        self.left = self.pause;
        Some(more)
    }
}
