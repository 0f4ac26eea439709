//! The ledger: one order of all changes, over all processors, and when they are on the disk.
//!
//! What is noted goes to the end of one line, under a lock that is held for a copy; so a change that was made after
//! another, by whomever, stands behind it. One operation at a time hands the line to the journal, piece by piece. Nothing
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
use crate::durable::patience::{Awake, PATIENCE, SLICE, patience};

/// A change's place in the line. All up to it are on the disk when it is. 0 for nothing to wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// The ledger has come to its end, or the disk takes long: nobody knows what is on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Broken;

/// A handle on the ledger, or on none where nothing is kept.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Option<Arc<Shared>>);

struct Shared {
    journal: Journal,
    /// Where the operation runs that commits.
    stage: SharedStage<()>,
    line: Mutex<Line>,
    /// Changes up to this one are on the disk.
    durable: AtomicU64,
    /// There is no room for more: the disk does not take it, or has as much as it may, or is behind.
    is_full: AtomicBool,
    /// The disk does not take it, or is behind: as far as that is known.
    is_behind: AtomicBool,
    /// Much waits for the disk.
    is_long: AtomicBool,
    /// How long the disk has taken nothing of what is to be committed, in milliseconds in which the broker was awake.
    taken_nothing: AtomicU64,
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
struct Line {
    /// Not yet with the journal, in order.
    open: VecDeque<Entry>,
    /// The ticket of the first of them.
    first: u64,
    bytes: usize,
    is_committing: bool,
    waiting: Vec<(Ticket, RemoteTrigger<()>)>,
}

/// What the disk has not taken is tried again after so long; and so often when the program is to end.
const AGAIN: Duration = Duration::from_millis(100);

/// The time between two looks for room on a full disk.
const ROOM_POLL_INTERVAL: Duration = Duration::from_secs(1);
const AT_THE_END: u32 = 10;

impl Ledger {
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
            line: Mutex::new(Line { first: 1, ..Line::default() }),
            durable: AtomicU64::new(0),
            is_full,
            is_behind: AtomicBool::new(false),
            is_long: AtomicBool::new(false),
            taken_nothing: AtomicU64::new(0),
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
    pub(crate) fn keeps(&self) -> bool {
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

    /// Whether the disk does not take what is noted, or has not for [`PATIENCE`]. Who would only wait for it is refused
    /// before anything is noted: else those who come again and again would have the line grow without end.
    pub(crate) fn is_behind(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| {
            shared.is_behind.load(Ordering::Relaxed) || shared.left().is_zero()
        })
    }

    /// Whether so much waits for the disk that even those who are promised nothing wait with it.
    pub(crate) fn is_long(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| shared.is_long.load(Ordering::Relaxed))
    }

    /// A number for a session; 0 if none is kept.
    pub(crate) fn session(&self) -> u64 {
        self.0.as_ref().map_or(0, |shared| shared.next_session.fetch_add(1, Ordering::Relaxed))
    }

    /// Why the ledger has ended, if it has.
    pub(crate) fn broken(&self) -> Option<&str> {
        self.0.as_ref()?.broken.get().map(String::as_str)
    }

    /// Notes what is in `entry`, which is empty then.
    pub(crate) fn note(&self, entry: &mut Entry) -> Ticket {
        let Some(shared) = self.0.as_ref().filter(|_| !entry.is_empty()) else {
            return Ticket::default();
        };
        let mut line = shared.line();
        line.bytes += entry.len();
        match line.open.back_mut() {
            Some(last) if last.len() + entry.len() <= shared.bounds.piece => last.append(entry),
            _ => line.open.push_back(std::mem::take(entry)),
        }
        let ticket = Ticket(line.first + line.open.len() as u64 - 1);
        if line.bytes > shared.bounds.long {
            shared.is_long.store(true, Ordering::Relaxed);
        }
        if line.bytes > shared.bounds.most {
            shared.is_full.store(true, Ordering::Relaxed);
            shared.is_behind.store(true, Ordering::Relaxed);
        }
        shared.begin(line);
        ticket
    }

    /// The last change so far.
    pub(crate) fn latest(&self) -> Ticket {
        self.0.as_ref().map_or(Ticket::default(), |shared| {
            let line = shared.line();
            Ticket(line.first + line.open.len() as u64 - 1)
        })
    }

    /// Whether all changes up to this one are on the disk.
    pub(crate) fn is_durable(&self, ticket: Ticket) -> bool {
        let durable = |shared: &Arc<Shared>| shared.durable.load(Ordering::Acquire) >= ticket.0;
        ticket.0 == 0 || self.0.as_ref().is_none_or(durable)
    }

    /// As [`durable`](Self::durable), but not for long: what is noted goes on to the disk without anybody who waits.
    pub(crate) async fn soon_durable(&self, ticket: Ticket) -> Result<(), Broken> {
        if self.is_durable(ticket) {
            return Ok(());
        }
        match select(self.durable(ticket), patience()).await {
            Either::Left(result) => result,
            Either::Right(()) => Err(Broken),
        }
    }

    /// As [`durable`](Self::durable), as long as the disk takes anything: not once it has taken nothing for
    /// [`PATIENCE`]. For those who may wait for much that is before them, but not without end.
    pub(crate) async fn durable_while_written(&self, ticket: Ticket) -> Result<(), Broken> {
        let Some(shared) = self.0.as_ref().filter(|_| !self.is_durable(ticket)) else {
            return Ok(());
        };
        let mut durable = pin!(self.durable(ticket));
        loop {
            let left = shared.left();
            if left.is_zero() {
                return Err(Broken);
            }
            if let Either::Left(result) = select(durable.as_mut(), sleep(left)).await {
                return result;
            }
        }
    }

    /// Waits until all changes up to this one are on the disk.
    pub(crate) async fn durable(&self, ticket: Ticket) -> Result<(), Broken> {
        let Some(shared) = self.0.as_ref().filter(|_| ticket.0 > 0) else { return Ok(()) };
        loop {
            if shared.durable.load(Ordering::Acquire) >= ticket.0 {
                return Ok(());
            }
            let (trigger, event) = remote_event();
            let is_under_way = {
                let mut line = shared.line();
                if shared.broken.get().is_some() {
                    return Err(Broken);
                }
                // It may have come about just now; who commits fires under the lock what it finds there.
                if shared.durable.load(Ordering::Acquire) >= ticket.0 {
                    return Ok(());
                }
                line.waiting.push((ticket, trigger));
                shared.begin(line)
            };
            match is_under_way {
                true => drop(event.await),
                // There was no room for the operation that commits: it is asked for again.
                false => drop(select(event, sleep(AGAIN)).await),
            }
        }
    }
}

impl Shared {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sees to it that somebody commits. Whether somebody does.
    fn begin(self: &Arc<Self>, mut line: MutexGuard<'_, Line>) -> bool {
        if std::mem::replace(&mut line.is_committing, true) {
            return true;
        }
        drop(line);
        let committing = Committing { shared: self.clone(), is_over: false };
        self.stage.dispatch(move |_| commit(committing)).is_ok()
    }

    /// How much of [`PATIENCE`] is left for what the disk is at.
    fn left(&self) -> Duration {
        let taken_nothing = Duration::from_millis(self.taken_nothing.load(Ordering::Relaxed));
        PATIENCE.saturating_sub(taken_nothing)
    }

    /// Does what the disk is to take, and counts how long it takes nothing meanwhile.
    async fn watched<T>(&self, work: impl Future<Output = T>) -> T {
        let (mut work, mut awake) = (pin!(work), Awake::since(now()));
        loop {
            let taken_nothing = match select(work.as_mut(), sleep(SLICE)).await {
                Either::Left(done) => {
                    self.taken_nothing.store(0, Ordering::Relaxed);
                    return done;
                }
                Either::Right(()) => awake.look(now()),
            };
            self.taken_nothing.store(taken_nothing.as_millis() as u64, Ordering::Relaxed);
        }
    }

    /// All up to `ticket` are on the disk: whoever waits for one of them is told.
    fn made_durable(&self, ticket: u64) {
        let mut line = self.line();
        self.durable.store(ticket, Ordering::Release);
        let there = line.waiting.extract_if(.., |(until, _)| until.0 <= ticket);
        let there: Vec<_> = there.collect();
        drop(line);
        there.into_iter().for_each(|(_, trigger)| trigger.fire(()));
    }

    /// Nothing is kept any more: the program ends, and nobody is told that anything was kept.
    fn breaks(&self, error: &AppendError) {
        let _ = self.broken.set(error.to_string());
        self.is_full.store(true, Ordering::Relaxed);
        let waiting = std::mem::take(&mut self.line().waiting);
        drop(waiting);
        drain();
    }

    /// Looks whether there is room for more.
    fn look(self: &Arc<Self>) {
        let (bytes, status) = (self.line().bytes, self.journal.status());
        let is_behind = bytes > self.bounds.most;
        self.is_long.store(bytes > self.bounds.long, Ordering::Relaxed);
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
                shared.look();
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
    is_over: bool,
}

impl Drop for Committing {
    fn drop(&mut self) {
        if !self.is_over {
            self.shared.line().is_committing = false;
        }
    }
}

/// Commits until nothing is left.
async fn commit(mut committing: Committing) {
    let shared = committing.shared.clone();
    while let Some((ticket, entry)) = shared.take() {
        let length = entry.len();
        if let Err(error) = shared.watched(shared.commit(entry)).await {
            return shared.breaks(&error);
        }
        shared.line().bytes -= length;
        shared.look();
        shared.made_durable(ticket);
    }
    committing.is_over = true;
}

impl Shared {
    /// The next piece of the line, and its ticket; none when the operation that commits is to end.
    fn take(&self) -> Option<(u64, Entry)> {
        let mut line = self.line();
        let entry = line.open.pop_front().filter(|_| self.broken.get().is_none());
        match entry {
            Some(entry) => {
                line.first += 1;
                Some((line.first - 1, entry))
            }
            None => {
                // Under the lock: what is noted next begins another.
                line.is_committing = false;
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
            let is_over = matches!(error, AppendError::Broken { .. } | AppendError::TooLong { .. });
            if is_over || is_draining() && tries >= AT_THE_END {
                return Err(error);
            }
            self.disk.failed(&error);
            self.is_full.store(true, Ordering::Relaxed);
            self.is_behind.store(true, Ordering::Relaxed);
            sleep(AGAIN).await;
        }
    }
}
