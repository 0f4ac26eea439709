//! The log of drops and of the disk's state. One operation checks both at intervals, so that neither clients
//! nor the disk can flood the log.

use std::pin::pin;
use std::time::Duration;

use phalanx::runtime::report;
use phalanx::shutdown::draining;
use phalanx::task::Either;
use phalanx::{select, sleep};

use crate::durable::Wal;
use crate::durable::disk_state::DiskLog;
use crate::events::drops::{DropLog, Drops};

/// Interval between checks.
const LOG_INTERVAL: Duration = Duration::from_secs(5);

/// Logs drops and changes of the disk's state until shutdown.
pub(crate) async fn log(drops: Drops, wal: Wal) {
    let (mut drop_log, mut disk_log) = (DropLog::default(), DiskLog::default());
    let mut drained = pin!(draining());
    loop {
        let is_last =
            matches!(select(sleep(LOG_INTERVAL), drained.as_mut()).await, Either::Right(()));
        let disk_lines = wal.disk().map(|disk| disk_log.lines(disk, is_last));
        let lines = disk_lines.into_iter().flatten().chain(drop_log.lines(&drops, is_last));
        lines.for_each(report);
        drops.events().report_suppressed();
        if is_last {
            return;
        }
    }
}
