//! The write-ahead log: a single order of the changes on all processors, and the progress of the disk.
//!
//! Appending copies records to a queue under a lock, so the order of the records is the order of the changes. One
//! operation at a time passes the queue to the journal, in chunks. An append cannot fail, because the change has already
//! been made in memory. A failed write is retried; until it succeeds, operations that would add to the persistent state
//! are refused.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use phalanx::shutdown::{drain, draining, is_draining};
use phalanx::sync::oneshot;
use phalanx::task::Either;
use phalanx::time::now;
use phalanx::{SharedStage, select, sleep};
use phalanx_store::{AppendError, Entry, Journal};

use crate::durable::bounds::Bounds;
use crate::durable::disk_state::DiskState;
use crate::durable::disk_timeout::{AwakeClock, DISK_TIMEOUT, MAX_TICK, disk_timeout};
use crate::durable::lsn::Lsn;
use crate::events::drops::DropReason;

/// The WAL is closed, or the disk did not respond in time. It is unknown whether the change is on disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotDurable;

/// A handle to the WAL; disabled without persistence.
#[derive(Clone, Default)]
pub(crate) struct Wal(Option<Arc<Shared>>);

struct Shared {
    journal: Journal,
    /// The stage of the committing operation.
    stage: SharedStage<()>,
    pending: Mutex<Pending>,
    /// The last LSN on disk.
    durable: AtomicU64,
    /// Whether additions are refused: the disk fails, is full or behind, or the limit of live data is reached.
    is_full: AtomicBool,
    /// Whether the last write failed, or the disk is behind.
    is_behind: AtomicBool,
    /// Whether the backlog exceeds [`BACKLOG_BYTES`].
    is_backlogged: AtomicBool,
    /// Time since the disk last completed a write while one is pending, in milliseconds of [`AwakeClock`].
    stalled_ms: AtomicU64,
    disk: DiskState,
    /// Whether an operation polls for free space.
    is_watching: AtomicBool,
    /// Limit of live data.
    max_live_bytes: u64,
    bounds: Bounds,
    /// [`DISK_TIMEOUT`], or longer if the journal has a mirror.
    timeout: Duration,
    next_session: AtomicU64,
    fatal_error: OnceLock<String>,
}

#[derive(Default)]
struct Pending {
    /// Entries not yet passed to the journal, in order.
    open: VecDeque<Entry>,
    /// The LSN of the first entry.
    first: u64,
    bytes: usize,
    is_committing: bool,
    waiting: Vec<(Lsn, oneshot::Sender<()>)>,
}

/// Delay before a failed write is retried, and the maximum number of attempts during shutdown.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// Interval between checks for free space on a full disk.
const SPACE_POLL_INTERVAL: Duration = Duration::from_secs(1);
const MAX_SHUTDOWN_RETRIES: u32 = 10;

impl Wal {
    pub(crate) fn new(
        journal: Journal,
        stage: SharedStage<()>,
        (max_live_bytes, timeout): (u64, Duration),
        next_session: u64,
    ) -> Self {
        let is_full = AtomicBool::new(journal.status().live >= max_live_bytes);
        let bounds = Bounds::new(journal.reserve_bytes());
        Self(Some(Arc::new(Shared {
            journal,
            stage,
            pending: Mutex::new(Pending { first: 1, ..Pending::default() }),
            durable: AtomicU64::new(0),
            is_full,
            is_behind: AtomicBool::new(false),
            is_backlogged: AtomicBool::new(false),
            stalled_ms: AtomicU64::new(0),
            disk: DiskState::default(),
            is_watching: AtomicBool::new(false),
            max_live_bytes,
            bounds,
            timeout,
            next_session: AtomicU64::new(next_session),
            fatal_error: OnceLock::new(),
        })))
    }

    /// Starts the journal's maintenance. Called when the broker starts, and when the mirror is behind.
    pub(crate) fn begin(&self) {
        if let Some(shared) = &self.0 {
            shared.watch();
        }
    }

    /// Whether persistence is enabled.
    pub(crate) fn is_enabled(&self) -> bool {
        self.0.is_some()
    }

    /// Whether additions to the persistent state must be refused.
    pub(crate) fn is_full(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| shared.is_full.load(Ordering::Relaxed))
    }

    #[cfg(test)]
    pub(crate) fn set_full(&self, is_full: bool) {
        let shared = self.0.as_ref().expect("persistence is enabled");
        shared.is_full.store(is_full, Ordering::Relaxed);
    }

    /// Maximum time that an operation waits for the disk.
    pub(crate) fn timeout(&self) -> Duration {
        self.0.as_ref().map_or(DISK_TIMEOUT, |shared| shared.timeout)
    }

    /// The state of the disk; `None` without persistence.
    pub(crate) fn disk(&self) -> Option<&DiskState> {
        self.0.as_ref().map(|shared| &shared.disk)
    }

    /// The reason for a refusal: the disk is full, or the journal is full or behind.
    pub(crate) fn reason(&self, disk_full: DropReason, store_full: DropReason) -> DropReason {
        match self.disk().is_some_and(DiskState::is_full) {
            true => disk_full,
            false => store_full,
        }
    }

    /// Whether the disk fails, or has not completed a write for [`DISK_TIMEOUT`]. Operations that would wait for it are
    /// then refused before they append anything. Otherwise clients' retries would grow the queue without bound.
    pub(crate) fn is_behind(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| {
            shared.is_behind.load(Ordering::Relaxed) || shared.timeout_left().is_zero()
        })
    }

    /// Whether the backlog is so long that QoS 0 publishers of retained messages wait, too.
    pub(crate) fn is_backlogged(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| shared.is_backlogged.load(Ordering::Relaxed))
    }

    /// Allocates a session ID; 0 without persistence.
    pub(crate) fn allocate_session(&self) -> u64 {
        self.0.as_ref().map_or(0, |shared| shared.next_session.fetch_add(1, Ordering::Relaxed))
    }

    /// The error that closed the WAL, if any.
    pub(crate) fn fatal_error(&self) -> Option<&str> {
        self.0.as_ref()?.fatal_error.get().map(String::as_str)
    }

    /// Appends the records of `entry`, and clears it.
    pub(crate) fn append(&self, entry: &mut Entry) -> Lsn {
        let Some(shared) = self.0.as_ref().filter(|_| !entry.is_empty()) else {
            return Lsn::default();
        };
        let mut pending = shared.pending();
        pending.bytes += entry.len();
        match pending.open.back_mut() {
            Some(last) if last.len() + entry.len() <= shared.bounds.commit => last.append(entry),
            _ => pending.open.push_back(std::mem::take(entry)),
        }
        let lsn = Lsn(pending.first + pending.open.len() as u64 - 1);
        if pending.bytes > shared.bounds.backlog {
            shared.is_backlogged.store(true, Ordering::Relaxed);
        }
        if pending.bytes > shared.bounds.pending {
            shared.is_full.store(true, Ordering::Relaxed);
            shared.is_behind.store(true, Ordering::Relaxed);
        }
        shared.begin(pending);
        lsn
    }

    /// The LSN of the last change.
    pub(crate) fn latest(&self) -> Lsn {
        self.0.as_ref().map_or(Lsn::default(), |shared| {
            let pending = shared.pending();
            Lsn(pending.first + pending.open.len() as u64 - 1)
        })
    }

    /// Whether all changes up to `lsn` are on disk.
    pub(crate) fn is_durable(&self, lsn: Lsn) -> bool {
        let durable = |shared: &Arc<Shared>| shared.durable.load(Ordering::Acquire) >= lsn.0;
        lsn.0 == 0 || self.0.as_ref().is_none_or(durable)
    }

    /// Like [`durable`](Self::durable), with a timeout of [`DISK_TIMEOUT`]. After a timeout, the records are still written.
    pub(crate) async fn durable_within_timeout(&self, lsn: Lsn) -> Result<(), NotDurable> {
        if self.is_durable(lsn) {
            return Ok(());
        }
        match select(self.durable(lsn), disk_timeout(self.timeout())).await {
            Either::Left(result) => result,
            Either::Right(()) => Err(NotDurable),
        }
    }

    /// Like [`durable`](Self::durable), but fails if the disk makes no progress within [`DISK_TIMEOUT`]. For operations
    /// that may wait for a long backlog, but not for a disk that hangs.
    pub(crate) async fn durable_with_progress(&self, lsn: Lsn) -> Result<(), NotDurable> {
        let Some(shared) = self.0.as_ref().filter(|_| !self.is_durable(lsn)) else {
            return Ok(());
        };
        let mut durable = pin!(self.durable(lsn));
        loop {
            let left = shared.timeout_left();
            if left.is_zero() {
                return Err(NotDurable);
            }
            if let Either::Left(result) = select(durable.as_mut(), sleep(left)).await {
                return result;
            }
        }
    }

    /// Waits until all changes up to `lsn` are on disk.
    pub(crate) async fn durable(&self, lsn: Lsn) -> Result<(), NotDurable> {
        let Some(shared) = self.0.as_ref().filter(|_| lsn.0 > 0) else { return Ok(()) };
        loop {
            if shared.durable.load(Ordering::Acquire) >= lsn.0 {
                return Ok(());
            }
            let (sender, receiver) = oneshot::shared();
            let is_committing = {
                let mut pending = shared.pending();
                if shared.fatal_error.get().is_some() {
                    return Err(NotDurable);
                }
                // Check again under the lock: the committing operation wakes the waiters it finds there.
                if shared.durable.load(Ordering::Acquire) >= lsn.0 {
                    return Ok(());
                }
                pending.waiting.push((lsn, sender));
                shared.begin(pending)
            };
            match is_committing {
                true => drop(receiver.await),
                // The processor had no capacity for the committing operation. Retry.
                false => drop(select(receiver, sleep(RETRY_DELAY)).await),
            }
        }
    }
}

impl Shared {
    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the committing operation, unless it is running. Returns whether it is running now.
    fn begin(self: &Arc<Self>, mut pending: MutexGuard<'_, Pending>) -> bool {
        if std::mem::replace(&mut pending.is_committing, true) {
            return true;
        }
        drop(pending);
        let committing = CommitGuard { shared: self.clone(), is_done: false };
        self.stage.dispatch(move |_| commit(committing)).is_ok()
    }

    /// The rest of [`DISK_TIMEOUT`] for the current write.
    fn timeout_left(&self) -> Duration {
        let stalled_ms = Duration::from_millis(self.stalled_ms.load(Ordering::Relaxed));
        self.timeout.saturating_sub(stalled_ms)
    }

    /// Runs a write, and updates the time without progress.
    async fn run_write<T>(&self, work: impl Future<Output = T>) -> T {
        let (mut work, mut awake) = (pin!(work), AwakeClock::since(now()));
        loop {
            let stalled_ms = match select(work.as_mut(), sleep(MAX_TICK)).await {
                Either::Left(done) => {
                    self.stalled_ms.store(0, Ordering::Relaxed);
                    return done;
                }
                Either::Right(()) => awake.tick(now()),
            };
            self.stalled_ms.store(stalled_ms.as_millis() as u64, Ordering::Relaxed);
        }
    }

    /// Advances the durable LSN, and wakes the operations waiting for it.
    fn set_durable(&self, lsn: u64) {
        let mut pending = self.pending();
        self.durable.store(lsn, Ordering::Release);
        let completed = pending.waiting.extract_if(.., |(until, _)| until.0 <= lsn);
        let completed: Vec<_> = completed.collect();
        drop(pending);
        completed.into_iter().for_each(|(_, sender)| sender.send(()));
    }

    /// Closes the WAL after an unrecoverable error: starts a shutdown, and fails all waiting operations.
    fn close(&self, error: &AppendError) {
        let _ = self.fatal_error.set(error.to_string());
        self.is_full.store(true, Ordering::Relaxed);
        let waiting = std::mem::take(&mut self.pending().waiting);
        drop(waiting);
        // A node that has lost its sessions shuts down by itself.
        if !matches!(error, AppendError::Mirror { .. }) {
            drain();
        }
    }

    /// Updates whether additions are refused.
    fn update_full(self: &Arc<Self>) {
        let (bytes, status) = (self.pending().bytes, self.journal.status());
        let is_behind = bytes > self.bounds.pending;
        self.is_backlogged.store(bytes > self.bounds.backlog, Ordering::Relaxed);
        self.is_behind.store(is_behind, Ordering::Relaxed);
        let is_full = is_behind || status.is_low || status.live >= self.max_live_bytes;
        self.is_full.store(is_full, Ordering::Relaxed);
        self.disk.set_low(status.is_low);
        if status.is_low {
            self.watch();
        }
    }

    /// Starts an operation that polls for free space, unless it is running.
    fn watch(self: &Arc<Self>) {
        if !self.is_watching.swap(true, Ordering::Relaxed) {
            let watching = SpaceWatcher(self.clone());
            // If the processor has no capacity for the operation, the next commit retries.
            let _ = self.stage.dispatch(move |_| watching.watch());
        }
    }
}

/// Guard of the polling operation: allows the next one when dropped.
struct SpaceWatcher(Arc<Shared>);

impl SpaceWatcher {
    /// Makes the journal set aside its reserve and clean up, until there is space or the broker shuts down.
    async fn watch(self) {
        let shared = &self.0;
        loop {
            // An empty entry lets the journal do its maintenance.
            if shared.journal.append(Entry::new()).await.is_ok() {
                shared.update_full();
            }
            let is_low = shared.journal.status().is_low;
            if !is_low || is_draining() || shared.fatal_error.get().is_some() {
                return;
            }
            select(sleep(SPACE_POLL_INTERVAL), draining()).await;
        }
    }
}

impl Drop for SpaceWatcher {
    fn drop(&mut self) {
        self.0.is_watching.store(false, Ordering::Relaxed);
    }
}

/// Guard of the committing operation: allows another to start if this one is dropped.
struct CommitGuard {
    shared: Arc<Shared>,
    /// Another operation may already have started.
    is_done: bool,
}

impl Drop for CommitGuard {
    fn drop(&mut self) {
        if !self.is_done {
            self.shared.pending().is_committing = false;
        }
    }
}

/// Commits until the queue is empty.
async fn commit(mut committing: CommitGuard) {
    let shared = committing.shared.clone();
    while let Some((lsn, entry)) = shared.take() {
        let length = entry.len();
        if let Err(error) = shared.run_write(shared.commit(entry)).await {
            return shared.close(&error);
        }
        shared.pending().bytes -= length;
        shared.update_full();
        shared.set_durable(lsn);
    }
    committing.is_done = true;
}

impl Shared {
    /// Takes the next entry and its LSN; `None` ends the committing operation.
    fn take(&self) -> Option<(u64, Entry)> {
        let mut pending = self.pending();
        let entry = pending.open.pop_front().filter(|_| self.fatal_error.get().is_none());
        match entry {
            Some(entry) => {
                pending.first += 1;
                Some((pending.first - 1, entry))
            }
            None => {
                // Under the lock: the next append starts another operation.
                pending.is_committing = false;
                None
            }
        }
    }

    /// Writes an entry to the journal, with retries.
    async fn commit(&self, entry: Entry) -> Result<(), AppendError> {
        let mut attempts = 0;
        loop {
            let error = match self.journal.append(entry.clone()).await {
                Ok(()) => {
                    self.disk.record_success();
                    return Ok(());
                }
                Err(error) => error,
            };
            attempts += 1;
            use AppendError::{Broken, Mirror, TooLong};
            let is_done = matches!(error, Broken { .. } | Mirror { .. } | TooLong { .. });
            if is_done || is_draining() && attempts >= MAX_SHUTDOWN_RETRIES {
                return Err(error);
            }
            self.disk.record_failure(&error);
            self.is_full.store(true, Ordering::Relaxed);
            self.is_behind.store(true, Ordering::Relaxed);
            sleep(RETRY_DELAY).await;
        }
    }
}
