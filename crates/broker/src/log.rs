//! The log of drops and of the disk's state. One operation checks both at intervals, so that neither clients
//! nor the disk can flood the log.

use std::pin::pin;
use std::time::Duration;

use phalanx::shutdown::draining;
use phalanx::task::Either;
use phalanx::{select, sleep};

use crate::drops::{DropLog, Drops};
use crate::durable::Wal;
use crate::durable::disk_state::DiskLog;

/// Interval between checks.
const LOG_INTERVAL: Duration = Duration::from_secs(5);

/// Logs drops and changes of the disk's state until shutdown.
pub(crate) async fn log(drops: Drops, wal: Wal) {
    let (mut drop_log, mut disk_log) = (DropLog::default(), DiskLog::default());
    let mut drained = pin!(draining());
    loop {
        let is_last =
            matches!(select(sleep(LOG_INTERVAL), drained.as_mut()).await, Either::Right(()));
        let of_disk = wal.disk().map(|disk| disk_log.lines(disk, is_last));
        let lines = of_disk.into_iter().flatten().chain(drop_log.lines(&drops, is_last));
        lines.for_each(|line| eprintln!("phalanx: {line}"));
        if is_last {
            return;
        }
    }
}

/// Rate limit of one kind of log line: exponential backoff. A line is due at a check that finds an increased
/// count; while the count keeps increasing, each interval is twice the previous one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogLimit {
    count: u64,
    /// The interval between the last line and the next, and the rest of it, in checks.
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
            // After a quiet period a line is due immediately.
            self.pause = 0;
            return None;
        }
        self.count = count;
        self.pause = (self.pause * 2).clamp(1, longest);
        self.left = self.pause;
        Some(more)
    }
}
