//! The log of what the broker drops and of the state of the disk: one operation of one processor looks at both at intervals,
//! so that no client and no disk can fill the log.

use std::pin::pin;
use std::time::Duration;

use phalanx::shutdown::draining;
use phalanx::task::Either;
use phalanx::{select, sleep};

use crate::drops::{DropLog, Drops};
use crate::durable::Wal;
use crate::durable::disk_state::DiskLog;

/// The interval between two looks.
const LOG_INTERVAL: Duration = Duration::from_secs(5);

/// Logs what is dropped, and changes of the disk's state, until the program drains.
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

/// The rate limit of one kind of line: a line is due at a look where a count has grown. While it grows on, each line comes
/// after twice as many looks as the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogLimit {
    count: u64,
    /// The interval between the last line and the next, and the remaining part of it, in looks.
    pause: u32,
    left: u32,
}

impl LogLimit {
    /// One look: by how much `count` has grown since the last line, if a line is due. There are no more than `longest`
    /// looks between two lines. The last look has no rate limit.
    pub(crate) fn due(&mut self, count: u64, longest: u32, is_last: bool) -> Option<u64> {
        self.left = self.left.saturating_sub(1);
        if self.left > 0 && !is_last {
            return None;
        }
        let more = count - self.count;
        if more == 0 {
            // After a quiet time a line is due at the next look.
            self.pause = 0;
            return None;
        }
        self.count = count;
        self.pause = (self.pause * 2).clamp(1, longest);
        self.left = self.pause;
        Some(more)
    }
}
