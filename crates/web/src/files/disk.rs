//! The disk stage: opens files, and reads what the aggregator has gathered.

use std::io;

use phalanx::Partition;
use phalanx::fs::{File, Metadata};

use crate::files::aggregator::{Aggregator, Run};
use crate::stages::Stages;

/// An open file and what is known of it.
pub(crate) struct Opened {
    pub(crate) file: File,
    pub(crate) metadata: Metadata,
}

/// Opens `path` beneath the root, by an operation of the disk stage.
///
/// # Errors
/// As [`phalanx::fs::Dir::open_file`].
pub(crate) async fn open(stages: Stages, path: &[u8]) -> io::Result<Opened> {
    // The root itself has no name beneath itself.
    let path = if path.is_empty() { b".".to_vec() } else { path.to_vec() };
    let call = stages.disk.call(move |site| async move {
        let file = site.root.open_file(&path, true).await?;
        let metadata = file.metadata()?;
        Ok(Opened { file, metadata })
    });
    call.await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// Reads what one cohort of the aggregator has gathered: each run by an operation of its own.
///
/// # Errors
/// When an operation was refused; those who wait for its reads learn it by their events.
pub(crate) fn read_gathered(
    stages: Stages,
    aggregator: Partition<Aggregator>,
) -> Result<(), phalanx::CallError> {
    stages.disk.dispatch(move |_| async move {
        for run in aggregator.with(Aggregator::take_runs) {
            // A run that is refused drops its triggers: its askers hear of it.
            let _ = stages.disk.dispatch(move |_| read(run));
        }
    })
}

async fn read(run: Run) {
    let read = run.file.read_at(run.offset, run.length).await;
    run.deliver(read);
}
