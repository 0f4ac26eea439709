//! The wal: one order of all changes, over all processors, and when they are on the disk.
//!
//! What is noted goes to the end of one pending, under a lock that is held for a copy; so a change that was made after
//! another, by whomever, stands behind it. One operation at a time hands the pending to the journal, piece by piece. Nothing
//! that was noted is ever refused, since it has happened: where the disk does not take it, it is tried again, and
//! whoever asks for more meanwhile is told that there is no room.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use phalanx::shutdown::{drain, draining, is_draining};
use phalanx::sync::{RemoteTrigger, remote_event};
use phalanx::task::Either;
use phalanx::time::now;
use phalanx::{SharedStage, select, sleep};
use phalanx_store::{AppendError, Entry, Journal};

use crate::drops::DropReason;
use crate::durable::bounds::Bounds;
use crate::durable::disk_state::DiskState;
use crate::durable::disk_timeout::{AwakeClock, DISK_TIMEOUT, MAX_TICK, disk_timeout};

/// A change's place in the pending. All up to it are on the disk when it is. 0 for nothing to wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lsn(u64);

/// The wal has come to its end, or the disk takes long: nobody knows what is on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotDurable;

/// A handle on the wal, or on none where nothing is kept.
#[derive(Clone, Default)]
pub(crate) struct Wal(Option<Arc<Shared>>);

struct Shared {
    journal: Journal,
    /// Where the operation runs that commits.
    stage: SharedStage<()>,
    pending: Mutex<Pending>,
    /// Changes up to this one are on the disk.
    durable: AtomicU64,
    /// There is no room for more: the disk does not take it, or has as much as it may, or is behind.
    is_full: AtomicBool,
    /// The disk does not take it, or is behind: as far as that is known.
    is_behind: AtomicBool,
    /// Much waits for the disk.
    is_backlogged: AtomicBool,
    /// How long the disk has taken nothing of what is to be committed, in milliseconds in which the broker was awake.
    stalled_ms: AtomicU64,
    disk: DiskState,
    /// Whether an operation looks for room.
    is_watching: AtomicBool,
    /// What is alive may have so many bytes.
    most_bytes: u64,
    bounds: Bounds,
    next_session: AtomicU64,
    broken: OnceLock<String>,
}

#[derive(Default)]
struct Pending {
    /// Not yet with the journal, in order.
    open: VecDeque<Entry>,
    /// The lsn of the first of them.
    first: u64,
    bytes: usize,
    is_committing: bool,
    waiting: Vec<(Lsn, RemoteTrigger<()>)>,
}

/// What the disk has not taken is tried again after so long; and so often when the program is to end.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// The time between two looks for room on a full disk.
const ROOM_POLL_INTERVAL: Duration = Duration::from_secs(1);
const MAX_SHUTDOWN_RETRIES: u32 = 10;

impl Wal {
    pub(crate) fn new(
        journal: Journal,
        stage: SharedStage<()>,
        most_bytes: u64,
        next_session: u64,
    ) -> Self {
        let is_full = AtomicBool::new(journal.status().live >= most_bytes);
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
            most_bytes,
            bounds,
            next_session: AtomicU64::new(next_session),
            broken: OnceLock::new(),
        })))
    }

    /// Has the journal set room aside for the time when the disk is full: when the program begins.
    pub(crate) fn begin(&self) {
        if let Some(shared) = &self.0 {
            shared.watch();
        }
    }

    /// Whether anything is kept at all.
    pub(crate) fn is_enabled(&self) -> bool {
        self.0.is_some()
    }

    /// Whether what would add to what is kept is to be refused.
    pub(crate) fn is_full(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| shared.is_full.load(Ordering::Relaxed))
    }

    /// The state of the disk; none where nothing is kept.
    pub(crate) fn disk(&self) -> Option<&DiskState> {
        self.0.as_ref().map(|shared| &shared.disk)
    }

    /// Which of two reasons it is for which something is refused: the disk is full, or the journal is full or behind.
    pub(crate) fn reason(&self, disk_full: DropReason, store_full: DropReason) -> DropReason {
        match self.disk().is_some_and(DiskState::is_full) {
            true => disk_full,
            false => store_full,
        }
    }

    /// Whether the disk does not take what is noted, or has not for [`DISK_TIMEOUT`]. Who would only wait for it is refused
    /// before anything is noted: else those who come again and again would have the pending grow without end.
    pub(crate) fn is_behind(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| {
            shared.is_behind.load(Ordering::Relaxed) || shared.timeout_left().is_zero()
        })
    }

    /// Whether so much waits for the disk that even those who are promised nothing wait with it.
    pub(crate) fn is_backlogged(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| shared.is_backlogged.load(Ordering::Relaxed))
    }

    /// A number for a session; 0 if none is kept.
    pub(crate) fn session(&self) -> u64 {
        self.0.as_ref().map_or(0, |shared| shared.next_session.fetch_add(1, Ordering::Relaxed))
    }

    /// Why the wal has ended, if it has.
    pub(crate) fn broken(&self) -> Option<&str> {
        self.0.as_ref()?.broken.get().map(String::as_str)
    }

    /// Notes what is in `entry`, which is empty then.
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

    /// The last change so far.
    pub(crate) fn latest(&self) -> Lsn {
        self.0.as_ref().map_or(Lsn::default(), |shared| {
            let pending = shared.pending();
            Lsn(pending.first + pending.open.len() as u64 - 1)
        })
    }

    /// Whether all changes up to this one are on the disk.
    pub(crate) fn is_durable(&self, lsn: Lsn) -> bool {
        let durable = |shared: &Arc<Shared>| shared.durable.load(Ordering::Acquire) >= lsn.0;
        lsn.0 == 0 || self.0.as_ref().is_none_or(durable)
    }

    /// As [`durable`](Self::durable), but not for long: what is noted goes on to the disk without anybody who waits.
    pub(crate) async fn durable_within_timeout(&self, lsn: Lsn) -> Result<(), NotDurable> {
        if self.is_durable(lsn) {
            return Ok(());
        }
        match select(self.durable(lsn), disk_timeout()).await {
            Either::Left(result) => result,
            Either::Right(()) => Err(NotDurable),
        }
    }

    /// As [`durable`](Self::durable), as long as the disk takes anything: not once it has taken nothing for
    /// [`DISK_TIMEOUT`]. For those who may wait for much that is before them, but not without end.
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

    /// Waits until all changes up to this one are on the disk.
    pub(crate) async fn durable(&self, lsn: Lsn) -> Result<(), NotDurable> {
        let Some(shared) = self.0.as_ref().filter(|_| lsn.0 > 0) else { return Ok(()) };
        loop {
            if shared.durable.load(Ordering::Acquire) >= lsn.0 {
                return Ok(());
            }
            let (trigger, event) = remote_event();
            let is_under_way = {
                let mut pending = shared.pending();
                if shared.broken.get().is_some() {
                    return Err(NotDurable);
                }
                // It may have come about just now; who commits fires under the lock what it finds there.
                if shared.durable.load(Ordering::Acquire) >= lsn.0 {
                    return Ok(());
                }
                pending.waiting.push((lsn, trigger));
                shared.begin(pending)
            };
            match is_under_way {
                true => drop(event.await),
                // There was no room for the operation that commits: it is asked for again.
                false => drop(select(event, sleep(RETRY_DELAY)).await),
            }
        }
    }
}

impl Shared {
    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sees to it that somebody commits. Whether somebody does.
    fn begin(self: &Arc<Self>, mut pending: MutexGuard<'_, Pending>) -> bool {
        if std::mem::replace(&mut pending.is_committing, true) {
            return true;
        }
        drop(pending);
        let committing = Committing { shared: self.clone(), is_done: false };
        self.stage.dispatch(move |_| commit(committing)).is_ok()
    }

    /// How much of [`DISK_TIMEOUT`] is left for what the disk is at.
    fn timeout_left(&self) -> Duration {
        let stalled_ms = Duration::from_millis(self.stalled_ms.load(Ordering::Relaxed));
        DISK_TIMEOUT.saturating_sub(stalled_ms)
    }

    /// Does what the disk is to take, and counts how long it takes nothing meanwhile.
    async fn watched<T>(&self, work: impl Future<Output = T>) -> T {
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

    /// All up to `lsn` are on the disk: whoever waits for one of them is told.
    fn set_durable(&self, lsn: u64) {
        let mut pending = self.pending();
        self.durable.store(lsn, Ordering::Release);
        let there = pending.waiting.extract_if(.., |(until, _)| until.0 <= lsn);
        let there: Vec<_> = there.collect();
        drop(pending);
        there.into_iter().for_each(|(_, trigger)| trigger.fire(()));
    }

    /// Nothing is kept any more: the program ends, and nobody is told that anything was kept.
    fn close(&self, error: &AppendError) {
        let _ = self.broken.set(error.to_string());
        self.is_full.store(true, Ordering::Relaxed);
        let waiting = std::mem::take(&mut self.pending().waiting);
        drop(waiting);
        drain();
    }

    /// Looks whether there is room for more.
    fn update_full(self: &Arc<Self>) {
        let (bytes, status) = (self.pending().bytes, self.journal.status());
        let is_behind = bytes > self.bounds.pending;
        self.is_backlogged.store(bytes > self.bounds.backlog, Ordering::Relaxed);
        self.is_behind.store(is_behind, Ordering::Relaxed);
        let is_full = is_behind || status.is_low || status.live >= self.most_bytes;
        self.is_full.store(is_full, Ordering::Relaxed);
        self.disk.set_low(status.is_low);
        if status.is_low {
            self.watch();
        }
    }

    /// Has an operation look for room, now and as long as there is too little.
    fn watch(self: &Arc<Self>) {
        if !self.is_watching.swap(true, Ordering::Relaxed) {
            let watching = Watching(self.clone());
            // Where there is no room for the operation, the next commit asks again.
            let _ = self.stage.dispatch(move |_| watching.watch());
        }
    }
}

/// Held by the operation that looks for room, so that another may begin when it has ended.
struct Watching(Arc<Shared>);

impl Watching {
    /// Has the journal look whether room can be set aside, and clean, until there is room or the program ends.
    async fn watch(self) {
        let shared = &self.0;
        loop {
            // Nothing is in it: the journal does what else is due.
            if shared.journal.append(Entry::new()).await.is_ok() {
                shared.update_full();
            }
            let is_low = shared.journal.status().is_low;
            if !is_low || is_draining() || shared.broken.get().is_some() {
                return;
            }
            select(sleep(ROOM_POLL_INTERVAL), draining()).await;
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.is_watching.store(false, Ordering::Relaxed);
    }
}

/// Held by the operation that commits, so that another may begin if it is ended in the middle.
struct Committing {
    shared: Arc<Shared>,
    /// Another may have begun already.
    is_done: bool,
}

impl Drop for Committing {
    fn drop(&mut self) {
        if !self.is_done {
            self.shared.pending().is_committing = false;
        }
    }
}

/// Commits until nothing is left.
async fn commit(mut committing: Committing) {
    let shared = committing.shared.clone();
    while let Some((lsn, entry)) = shared.take() {
        let length = entry.len();
        if let Err(error) = shared.watched(shared.commit(entry)).await {
            return shared.close(&error);
        }
        shared.pending().bytes -= length;
        shared.update_full();
        shared.set_durable(lsn);
    }
    committing.is_done = true;
}

impl Shared {
    /// The next piece of the pending, and its lsn; none when the operation that commits is to end.
    fn take(&self) -> Option<(u64, Entry)> {
        let mut pending = self.pending();
        let entry = pending.open.pop_front().filter(|_| self.broken.get().is_none());
        match entry {
            Some(entry) => {
                pending.first += 1;
                Some((pending.first - 1, entry))
            }
            None => {
                // Under the lock: what is noted next begins another.
                pending.is_committing = false;
                None
            }
        }
    }

    /// Has the journal keep a piece, however long that takes.
    async fn commit(&self, entry: Entry) -> Result<(), AppendError> {
        let mut tries = 0;
        loop {
            let error = match self.journal.append(entry.clone()).await {
                Ok(()) => {
                    self.disk.written();
                    return Ok(());
                }
                Err(error) => error,
            };
            tries += 1;
            let is_done = matches!(error, AppendError::Broken { .. } | AppendError::TooLong { .. });
            if is_done || is_draining() && tries >= MAX_SHUTDOWN_RETRIES {
                return Err(error);
            }
            self.disk.failed(&error);
            self.is_full.store(true, Ordering::Relaxed);
            self.is_behind.store(true, Ordering::Relaxed);
            sleep(RETRY_DELAY).await;
        }
    }
}
