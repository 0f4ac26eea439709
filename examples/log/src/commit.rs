//! The log: concurrent lines are committed together.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use phalanx::fs::{Dir, File};
use phalanx::runtime::report;
use phalanx::stage::{Cohort, PartitionedCohortStage};
use phalanx::{Graph, SharedStage};

/// The key of the only log; it determines the processor.
pub(crate) const LOG: u64 = 0;
/// Maximum number of items (lines of one client) that share a sync.
const MAX_COMMIT: usize = 4096;

/// The position of a client's lines in the log, or the error.
type AppendResult = Result<u64, io::ErrorKind>;

/// Handles of all stages.
#[derive(Clone, Copy)]
pub(crate) struct Stages {
    pub(crate) clients: SharedStage<()>,
    pub(crate) log: PartitionedCohortStage<Vec<u8>, AppendResult>,
}

/// Statistics of commits.
#[derive(Default)]
pub(crate) struct Commits {
    lines: AtomicU64,
    syncs: AtomicU64,
}

impl fmt::Display for Commits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (lines, syncs) =
            (self.lines.load(Ordering::Relaxed), self.syncs.load(Ordering::Relaxed));
        let each = syncs as f64 / lines.max(1) as f64;
        write!(f, "{lines} lines, {syncs} syncs: {each:.3} per line")
    }
}

/// The log on its processor.
struct Log {
    directory: Dir,
    /// The file, once opened, and the position of the next line.
    open: Option<(File, u64)>,
    commits: Arc<Commits>,
    /// The error that broke the log. After a failed sync the contents of the disk are unknown.
    broken: Option<io::ErrorKind>,
}

impl Stages {
    pub(crate) fn declare(graph: &mut Graph, directory: &Dir, commits: &Arc<Commits>) -> Self {
        let clients = graph.stage("clients").max_cohort(64).shared(());
        let commit = graph.shared("commit", ());
        let (directory, commits) = (directory.clone(), commits.clone());
        let make = move |_| Log {
            directory: directory.clone(),
            open: None,
            commits: commits.clone(),
            broken: None,
        };
        // One commit at a time: lines received meanwhile belong to the next one.
        let log = graph
            .stage("log")
            .max_cohort(MAX_COMMIT)
            .partitioned_serial_cohort(make, commit, commit_all);
        Self { clients, log }
    }
}

/// Commits the lines of a cohort together and answers all.
async fn commit_all(log: &mut Log, mut cohort: Cohort<Vec<u8>, AppendResult>) {
    let mut lines = Vec::new();
    let mut waiting = Vec::with_capacity(cohort.len());
    for (mut item, reply) in cohort.drain() {
        waiting.push((reply, lines.len() as u64));
        lines.append(&mut item);
    }
    let placed = match log.broken {
        Some(broken) => Err(broken),
        None => append(log, lines).await.map_err(|error| {
            report(format_args!("the log accepts no more lines until a restart: {error}"));
            error.kind()
        }),
    };
    log.broken = placed.err();
    for (reply, begin) in waiting {
        reply.send(placed.map(|place| place + begin));
    }
}

/// Appends lines and syncs. Returns their position.
async fn append(log: &mut Log, lines: Vec<u8>) -> io::Result<u64> {
    let (file, place) = match &log.open {
        Some(open) => open.clone(),
        None => open(&log.directory).await?,
    };
    let (length, count) = (lines.len(), lines.iter().filter(|byte| **byte == b'\n').count());
    file.write_at(place, lines).await?;
    file.sync_data().await?;
    log.commits.lines.fetch_add(count as u64, Ordering::Relaxed);
    log.commits.syncs.fetch_add(1, Ordering::Relaxed);
    log.open = Some((file, place + length as u64));
    Ok(place)
}

/// Opens the log and ends an incomplete line, which a crash may have left, with a newline.
async fn open(directory: &Dir) -> io::Result<(File, u64)> {
    let file = directory.create(b"log", false).await?;
    directory.sync().await?;
    let mut end = file.metadata()?.length;
    if end > 0 && file.read_at(end - 1, 1).await? != b"\n" {
        file.write_at(end, &b"\n"[..]).await?;
        end += 1;
    }
    Ok((file, end))
}
