//! The log: gathering lines, and committing them together.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use phalanx::fs::{Dir, File};
use phalanx::{Cohort, Graph, PartitionedCohortStage, Reply, SharedStage};

/// There is one log; its key names the processor that has it.
pub(crate) const LOG: u64 = 0;

/// Where a client's lines begin in the log, or why they are not in it.
type Placed = Result<u64, io::ErrorKind>;

/// Handles on all stages.
#[derive(Clone, Copy)]
pub(crate) struct Stages {
    pub(crate) clients: SharedStage<()>,
    pub(crate) log: PartitionedCohortStage<Vec<u8>, Placed>,
}

/// What commits have cost.
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
        write!(f, "{lines} lines, {syncs} syncs: {each:.3} for a line")
    }
}

/// The log on the processor that has it.
struct Log {
    directory: Dir,
    /// Where the next line goes, and the file, once it was opened.
    open: RefCell<Option<(File, u64)>>,
    gathered: RefCell<Gathered>,
    commits: Arc<Commits>,
}

#[derive(Default)]
struct Gathered {
    lines: Vec<u8>,
    /// Who waits, and how many bytes into `lines` its own begin.
    waiting: Vec<(Reply<Placed>, usize)>,
    /// Whether a commit is under way. It takes what is gathered when it is done.
    committing: bool,
    /// Why the log is broken. After a sync has failed, nobody knows what is on the disk.
    broken: Option<io::ErrorKind>,
}

impl Stages {
    pub(crate) fn declare(graph: &mut Graph, directory: &Dir, commits: &Arc<Commits>) -> Self {
        let clients = graph.stage("clients").max_cohort(64).shared(());
        let commit = graph.shared("commit", ());
        let (directory, commits) = (directory.clone(), commits.clone());
        let open = move |_| {
            Rc::new(Log {
                directory: directory.clone(),
                open: RefCell::default(),
                gathered: RefCell::default(),
                commits: commits.clone(),
            })
        };
        let handler = move |log: &mut Rc<Log>, cohort: &mut Cohort<Vec<u8>, Placed>| {
            if log.gather(cohort) {
                let commits = log.clone();
                if commit.dispatch(move |_| commit_all(commits)).is_err() {
                    // The processor is full. The replies are dropped: the callers learn of it.
                    log.gathered.take();
                }
            }
        };
        // In order: a client's lines stay in theirs.
        let log = graph.stage("log").partitioned_cohort(open, handler);
        Self { clients, log }
    }
}

impl Log {
    /// Takes a cohort's lines. Whether a commit must be begun.
    fn gather(&self, cohort: &mut Cohort<Vec<u8>, Placed>) -> bool {
        let gathered = &mut *self.gathered.borrow_mut();
        for entry in cohort.iter_mut() {
            let begin = gathered.lines.len();
            gathered.lines.append(&mut entry.item);
            gathered.waiting.push((entry.take_reply(), begin));
        }
        !std::mem::replace(&mut gathered.committing, true)
    }
}

/// Commits what is gathered, and what is gathered meanwhile, until nothing is.
async fn commit_all(log: Rc<Log>) {
    loop {
        let (lines, waiting, broken) = {
            let gathered = &mut *log.gathered.borrow_mut();
            gathered.committing = !gathered.waiting.is_empty();
            if !gathered.committing {
                return;
            }
            let lines = std::mem::take(&mut gathered.lines);
            (lines, std::mem::take(&mut gathered.waiting), gathered.broken)
        };
        let placed = match broken {
            Some(broken) => Err(broken),
            None => append(&log, lines).await.map_err(|error| error.kind()),
        };
        log.gathered.borrow_mut().broken = placed.err();
        for (reply, begin) in waiting {
            reply.send(placed.map(|place| place + begin as u64));
        }
    }
}

/// Writes lines behind what is there and brings them to the disk. Returns where they begin.
async fn append(log: &Log, lines: Vec<u8>) -> io::Result<u64> {
    let opened = log.open.borrow().clone();
    let (file, place) = match opened {
        Some(open) => open,
        None => open(&log.directory).await?,
    };
    let (length, count) = (lines.len(), lines.iter().filter(|byte| **byte == b'\n').count());
    file.write_at(place, lines).await?;
    file.sync_data().await?;
    log.commits.lines.fetch_add(count as u64, Ordering::Relaxed);
    log.commits.syncs.fetch_add(1, Ordering::Relaxed);
    *log.open.borrow_mut() = Some((file, place + length as u64));
    Ok(place)
}

/// Opens the log; what a crash has left of an unacknowledged line is closed by a line's end.
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
