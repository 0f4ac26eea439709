//! The state of the disk: whether it is full or fails, and the log lines about changes of the state.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use phalanx_store::AppendError;

use crate::events::log_limit::LogLimit;

/// The state of the disk, written by one operation at a time.
#[derive(Default)]
pub(crate) struct DiskState {
    /// The disk is full, and the journal uses the reserve.
    low: Flag,
    /// The last write failed.
    failing: Flag,
    /// The last write failed because the disk is full.
    is_out_of_room: AtomicBool,
    /// The last write error.
    error: Mutex<String>,
}

/// A flag that counts its changes.
#[derive(Default)]
struct Flag {
    is_set: AtomicBool,
    changes: AtomicU64,
}

impl Flag {
    fn set(&self, is_set: bool) {
        if self.is_set.swap(is_set, Ordering::Relaxed) != is_set {
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }
}

impl DiskState {
    /// Sets whether the journal uses the reserve.
    pub(crate) fn set_low(&self, is_low: bool) {
        self.low.set(is_low);
    }

    pub(crate) fn record_failure(&self, error: &AppendError) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = error.to_string();
        self.is_out_of_room.store(error.is_out_of_room(), Ordering::Relaxed);
        self.failing.set(true);
    }

    pub(crate) fn record_success(&self) {
        self.is_out_of_room.store(false, Ordering::Relaxed);
        self.failing.set(false);
    }

    /// Whether the disk is full, with or without a reserve.
    pub(crate) fn is_full(&self) -> bool {
        self.low.is_set() || self.is_out_of_room.load(Ordering::Relaxed)
    }
}

/// Maximum interval between log lines about one flag, in log intervals.
const MAX_LOG_PAUSE: u32 = 2;

/// The log's rate limits for a [`DiskState`].
#[derive(Default)]
pub(crate) struct DiskLog {
    low: LogLimit,
    failing: LogLimit,
}

impl DiskLog {
    /// The lines that are due.
    pub(crate) fn lines(&mut self, disk: &DiskState, is_last: bool) -> Vec<String> {
        let mut lines = Vec::new();
        let mut line = |limit: &mut LogLimit, flag: &Flag, text: &dyn Fn(bool) -> String| {
            let changes = flag.changes.load(Ordering::Relaxed);
            match limit.check(changes, MAX_LOG_PAUSE, is_last) {
                None => (),
                Some(1) => lines.push(text(flag.is_set())),
                Some(many) => lines.push(format!(
                    "{} (changed {many} times since the last line)",
                    text(flag.is_set())
                )),
            }
        };
        line(&mut self.low, &disk.low, &|is_low| {
            match is_low {
            true => "the disk is full: QoS 1 and 2, retained messages, new sessions and subscriptions are refused (quota \
                     exceeded); existing sessions continue, and their acknowledgements free space"
                .into(),
            false => "the disk has space again: nothing is refused for lack of it".into(),
        }
        });
        line(&mut self.failing, &disk.failing, &|is_failing| match is_failing {
            true => {
                let error = disk.error.lock().unwrap_or_else(PoisonError::into_inner);
                format!(
                    "{error}; additions to the persistent state are refused until writes succeed"
                )
            }
            false => "journal writes succeed again".into(),
        });
        lines
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    fn error(kind: ErrorKind) -> AppendError {
        AppendError::Disk { kind, reason: "no".into() }
    }

    #[test]
    fn a_disk_at_the_limit_cannot_flood_the_log() {
        let (disk, mut log) = (DiskState::default(), DiskLog::default());
        assert!(log.lines(&disk, false).is_empty());
        let mut lines = Vec::new();
        for check in 0..1000 {
            for _ in 0..10 {
                disk.set_low(true);
                disk.set_low(true);
                disk.set_low(false);
                disk.record_failure(&error(ErrorKind::StorageFull));
                disk.record_failure(&error(ErrorKind::StorageFull));
                disk.record_success();
            }
            disk.set_low(check % 2 == 0);
            lines.extend(log.lines(&disk, false).into_iter().map(|line| (check, line)));
            if check % 2 == 0 {
                disk.set_low(false);
            }
        }
        // Two lines are logged immediately, then at most two in two intervals.
        assert!((990..=1002).contains(&lines.len()), "{}", lines.len());
        assert!(lines.iter().all(|(_, line)| line.contains(" times since the last line")));
        // The final state is logged, and no line is written without a change.
        disk.set_low(true);
        let last: Vec<_> = (0..3).flat_map(|_| log.lines(&disk, false)).collect();
        assert!(last.iter().any(|line| line.starts_with("the disk is full")), "{last:?}");
        assert!((0..100).all(|_| log.lines(&disk, false).is_empty()));
        disk.set_low(false);
        let line = "the disk has space again: nothing is refused for lack of it";
        assert_eq!(log.lines(&disk, false), [line]);
    }

    #[test]
    fn full_and_failing_disks_are_distinguished() {
        let disk = DiskState::default();
        disk.record_failure(&error(ErrorKind::Other));
        assert!(!disk.is_full());
        disk.record_failure(&error(ErrorKind::StorageFull));
        assert!(disk.is_full());
        disk.record_success();
        assert!(!disk.is_full());
        disk.set_low(true);
        assert!(disk.is_full());
        let lines = DiskLog::default().lines(&disk, true);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[1].starts_with("journal writes succeed again (changed 2 times"));
    }
}
