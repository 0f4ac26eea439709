//! The journal in the persistence directory.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use phalanx::runtime::report;
use phalanx_store::{Checked, OpenError, Options, Store};

use crate::config::Config;
use crate::durable::recovery::RecoveredState;
use crate::kept::fenced::set_aside;
use crate::serve::error::ServeError;

/// Opens the persistence directory, and logs the result.
pub(super) fn open(config: &Config, path: &Path) -> Result<(Store, RecoveredState), ServeError> {
    let started = Instant::now();
    // Unlimited here, because the WAL enforces its own limits before a change is made.
    let (max_bytes, max_pending_bytes) = (u64::MAX, usize::MAX);
    let accept_loss = config.accept_loss;
    let options =
        Options { max_bytes, max_pending_bytes, accept_loss, ..Options::for_directory(path) };
    let set_aside_error =
        |source| OpenError::Io { action: "set aside the journal of", path: path.into(), source };
    // Also if the cluster no longer keeps sessions, because another node has adopted them.
    if set_aside(path).map_err(set_aside_error)? {
        report(format_args!(
            "{}: another node has adopted the sessions; the journal was moved to adopted-journal",
            path.display()
        ));
    }
    let (store, recovered) = Store::open(path, options)?;
    store.warnings().iter().for_each(report);
    recovered.lost.iter().for_each(report);
    recovered.torn.iter().for_each(report);
    let (sessions, messages) = (recovered.sessions.len(), recovered.messages.len());
    let segments = store.segments();
    let day = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let state = RecoveredState::of(recovered, config.runtime.workers, day)
        .map_err(|reason| ServeError::Unknown { path: path.into(), reason })?;
    let (shown, elapsed) = (path.display(), started.elapsed().as_secs_f64());
    match segments {
        0 => report(format_args!("{shown}: no journal found; starting a new one")),
        _ => report(format_args!(
            "{shown}: recovered {sessions} sessions and {messages} messages from {segments} files in {elapsed:.1} s"
        )),
    }
    Ok((store, state))
}

/// Checks the persistence directory of a broker that is not running, without changing it. May block.
///
/// # Errors
/// Like [`serve`](fn@crate::serve), and also if the directory does not exist.
pub fn check_persistence_dir(path: &Path) -> Result<Checked, ServeError> {
    let (checked, recovered) = phalanx_store::check(path)?;
    RecoveredState::of(recovered, 1, Duration::ZERO)
        .map_err(|reason| ServeError::Unknown { path: path.into(), reason })?;
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::kept::fenced::mark;

    #[test]
    fn the_journal_of_adopted_sessions_is_not_used_by_a_node_that_does_not_keep_sessions() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path();
        fs::write(path.join("000000000001.journal"), "sessions").unwrap();
        mark(path, "test").unwrap();
        drop(open(&Config::new(), path).unwrap());
        let aside = path.join("adopted-journal").join("000000000001.journal");
        assert_eq!(fs::read_to_string(aside).unwrap(), "sessions");
    }
}
