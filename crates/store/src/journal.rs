//! The stages of a store: a cohort of entries is one write and one sync (group commit).
//!
//! Entries of all processors go to the stage `journal` on one processor, whose handler queues them. One operation of
//! the stage `journal disk` at a time writes the queued entries, syncs, and answers all of them; entries that arrive in
//! the meantime are committed next. A single entry waits for one sync; ten thousand together wait little longer.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use phalanx::blocking::{BlockingStage, blocking};
use phalanx::fs::Dir;
use phalanx::shutdown::is_draining;
use phalanx::stage::{Cohort, Handles, PartitionedCohortStage};
use phalanx::task::Reply;
use phalanx::{Graph, SharedStage};

use crate::directory::names::segment_name;
use crate::error::AppendError;
use crate::format::entry::Entry;
use crate::mirror::{MakeMirror, Mirror};
use crate::status::{Counters, Status};
use crate::write::writer::Writer;

/// The key of the only partition, which is on the journal's processor.
const JOURNAL: u64 = 0;

type AppendResult = Result<(), AppendError>;

/// A handle to a running store, for appending entries. All clones refer to the same store.
///
/// Created by [`Store::declare`](crate::Store::declare).
#[derive(Clone, Handles)]
pub struct Journal {
    stage: PartitionedCohortStage<Entry, AppendResult>,
    #[handles(skip)]
    counters: Arc<Counters>,
    #[handles(skip)]
    reserve_bytes: u64,
}

/// The journal's state on its processor.
struct JournalTask {
    directory: Dir,
    /// `None` while an operation uses it, and permanently after a failure.
    writer: RefCell<Option<Writer>>,
    queue: RefCell<AppendQueue>,
    max_pending_bytes: usize,
    disk: SharedStage<()>,
    remover: BlockingStage<()>,
    counters: Arc<Counters>,
    mirror: Option<Rc<dyn Mirror>>,
    /// Whether the mirror has all earlier batches.
    is_mirrored: Cell<bool>,
}

#[derive(Default)]
struct AppendQueue {
    pending: VecDeque<(Entry, Reply<AppendResult>)>,
    /// Size of the entries, in bytes.
    bytes: usize,
    /// Whether a commit is running. After it has finished, the same operation commits the queue.
    is_committing: bool,
}

impl Journal {
    /// Appends `entry`. The future completes when the entry is on disk; only then may it be acknowledged. The entry is
    /// written even if the future is dropped.
    ///
    /// Entries of one processor are stored in order. Entries of different processors are stored in any order, unless
    /// one is appended after the other has completed. After a crash an unacknowledged entry exists completely or not at
    /// all, and only together with all entries that its processor appended before.
    ///
    /// # Panics
    /// If called outside an operation.
    ///
    /// # Errors
    /// [`AppendError`]. After [`Broken`](AppendError::Broken) all appends fail, and it is unknown whether pending
    /// entries were stored: restart the program.
    pub fn append(&self, entry: Entry) -> impl Future<Output = Result<(), AppendError>> + use<> {
        let call = self.stage.call(JOURNAL, entry);
        async move { call.await? }
    }

    /// Sizes and counters.
    pub fn status(&self) -> Status {
        self.counters.status()
    }

    /// Size of the disk reserve in bytes, as configured in [`Options`](crate::Options).
    pub fn reserve_bytes(&self) -> u64 {
        self.reserve_bytes
    }

    /// Declares the stages. `mirror` receives the stage of the mirror's operations, and returns the function that
    /// creates the mirror.
    pub(crate) fn declare(
        graph: &mut Graph,
        writer: Writer,
        mirror: impl FnOnce(&mut Graph, SharedStage<()>) -> Option<MakeMirror>,
    ) -> Self {
        let counters = Arc::new(Counters::default());
        counters.measure(&writer);
        let reserve_bytes = writer.reserve.bytes;
        let place = graph.reserve("journal");
        let disk = graph.shared("journal disk", ());
        let remover = blocking(graph, "journal files").threads(1).state(());
        let mirror = mirror(graph, disk);
        let make = {
            let counters = counters.clone();
            // Only one processor receives items, and takes the writer.
            let parts = Mutex::new(Some((writer, mirror)));
            move || {
                let parts = parts.lock().unwrap_or_else(PoisonError::into_inner).take();
                let (writer, mirror) = parts.expect("the journal runs on one worker");
                Rc::new(JournalTask {
                    directory: writer.directory.clone(),
                    max_pending_bytes: writer.options.max_pending_bytes,
                    writer: RefCell::new(Some(writer)),
                    queue: RefCell::default(),
                    disk,
                    remover,
                    counters: counters.clone(),
                    mirror: mirror.map(|make| make()),
                    is_mirrored: Cell::new(false),
                })
            }
        };
        let handler = move |task: &mut Option<Rc<JournalTask>>,
                            cohort: &mut Cohort<Entry, AppendResult>| {
            let task = task.get_or_insert_with(&make);
            if task.enqueue(cohort) {
                let commit = CommitFuture::new(task.clone());
                // If the processor is full, the queue is dropped and its callers receive an error.
                let _ = disk.dispatch(move |_| commit.commit());
            }
        };
        // Cohorts run in order, which preserves the order of each processor's entries.
        let stage = graph.declare(place).partitioned_cohort(|_| None, handler);
        graph.calls(stage, disk);
        graph.calls(disk, (disk, remover));
        Self { stage, counters, reserve_bytes }
    }
}

impl JournalTask {
    /// Queues a cohort's entries. Returns whether a commit has to be started.
    fn enqueue(&self, cohort: &mut Cohort<Entry, AppendResult>) -> bool {
        let queue = &mut *self.queue.borrow_mut();
        for (entry, reply) in cohort.drain() {
            let (length, pending) = (entry.len(), queue.bytes);
            if length > Entry::MAX_BYTES {
                reply.send(Err(AppendError::TooLong { bytes: length }));
            } else if pending > 0 && pending + length > self.max_pending_bytes {
                reply.send(Err(AppendError::Busy { bytes: pending }));
            } else {
                queue.bytes += length;
                queue.pending.push_back((entry, reply));
            }
        }
        !queue.pending.is_empty() && !std::mem::replace(&mut queue.is_committing, true)
    }

    /// Takes the entries of the next batch. Answers the entries that are not accepted.
    fn take(&self, writer: &Writer) -> (Vec<Entry>, Vec<Reply<AppendResult>>) {
        let (mut entries, mut replies, mut bytes) = (Vec::new(), Vec::new(), 0);
        let queue = &mut *self.queue.borrow_mut();
        while let Some((entry, _)) = queue.pending.front()
            && (bytes == 0 || bytes + entry.len() <= writer.batch_bytes())
        {
            let (entry, reply) = queue.pending.pop_front().expect("read before");
            queue.bytes -= entry.len();
            match writer.admit(&entry, bytes) {
                Err(error) => reply.send(Err(error)),
                Ok(()) => {
                    bytes += entry.len();
                    entries.push(entry);
                    replies.push(reply);
                }
            }
        }
        (entries, replies)
    }

    /// Opens the mirror if it is not open or lacks batches, and sends the missing batches.
    async fn open_mirror(&self, writer: &Writer) -> Result<(), AppendError> {
        let Some(mirror) = self.mirror.as_deref() else { return Ok(()) };
        if !self.is_mirrored.get() || mirror.is_behind() {
            self.is_mirrored.set(false);
            writer.open_mirror(mirror).await?;
            self.is_mirrored.set(true);
        }
        Ok(())
    }

    /// Answers all queued entries with an error.
    fn reject_all(&self, error: &AppendError) {
        let pending = std::mem::take(&mut self.queue.borrow_mut().pending);
        pending.into_iter().for_each(|(_, reply)| reply.send(Err(error.clone())));
    }

    fn has_pending(&self) -> bool {
        !self.queue.borrow().pending.is_empty()
    }
}

/// The operation that commits. Dropping it during a write closes the journal, because the contents of the disk are then
/// unknown.
struct CommitFuture {
    task: Rc<JournalTask>,
    writer: Option<Writer>,
    is_writing: bool,
}

impl CommitFuture {
    fn new(task: Rc<JournalTask>) -> Self {
        let writer = task.writer.borrow_mut().take();
        Self { task, writer, is_writing: false }
    }

    /// Commits queued entries and cleans, until there is nothing left to do.
    async fn commit(mut self) {
        let task = self.task.clone();
        let Some(writer) = &mut self.writer else {
            let reason = "a commit was interrupted".to_owned();
            return task.reject_all(&AppendError::Broken { reason });
        };
        let mirror = task.mirror.as_deref();
        let mut is_urgent = false;
        while is_urgent || task.has_pending() {
            writer.reserve.ensure(&task.directory, task.remover).await;
            if let Err(error) = task.open_mirror(writer).await {
                return task.reject_all(&error);
            }
            let (entries, replies) = task.take(writer);
            self.is_writing = true;
            let mut result = writer.commit(&entries, mirror).await;
            if result.as_ref().is_err_and(AppendError::is_out_of_room)
                && writer.reserve.release(&task.directory, task.remover).await
            {
                result = writer.commit(&entries, mirror).await;
            }
            self.is_writing = false;
            task.counters.committed(writer, entries.len(), &result);
            replies.into_iter().for_each(|reply| reply.send(result.clone()));
            writer.put_position().await;
            // After a failure, cleaning continues after the next successful commit.
            is_urgent = result.is_ok() && task.clean(writer).await;
        }
    }
}

impl JournalTask {
    /// Prepares the piece to clean with the next commit. Returns true if cleaning is urgent, so that this commit should
    /// not wait for entries.
    async fn clean(&self, writer: &mut Writer) -> bool {
        let read = if is_draining() { None } else { writer.next_read() };
        if let Some(read) = read {
            match read.load(&self.directory).await {
                Ok(piece) => writer.set_piece(piece),
                Err(fault) => {
                    writer.stop_cleaning();
                    self.counters.fault(fault);
                }
            }
        }
        writer.rotate().await;
        let (removable, first) = (writer.take_removable(), writer.first_sequence());
        if !removable.is_empty() {
            if let Some(mirror) = self.mirror.clone() {
                // If the processor is full, these batches are removed with the next cleaned segment.
                let _ = self.disk.dispatch(move |_| mirror.trim(first));
            }
            let (directory, remover) = (self.directory.clone(), self.remover);
            let remove = move |_: &()| {
                for number in removable {
                    // A file that cannot be deleted now is deleted when the store is next opened.
                    let _ = directory.remove(segment_name(number).as_bytes());
                }
            };
            match writer.reserve.is_low() {
                // The next write needs the space.
                true => drop(remover.call(remove).await),
                false => {
                    let removed = async move { drop(remover.call(remove).await) };
                    let _ = self.disk.dispatch(move |_| removed);
                }
            }
        }
        !is_draining() && writer.cleaning.is_urgent()
    }
}

impl Drop for CommitFuture {
    fn drop(&mut self) {
        let queue = &mut *self.task.queue.borrow_mut();
        queue.is_committing = false;
        if !self.is_writing {
            *self.task.writer.borrow_mut() = self.writer.take();
        }
        queue.bytes = 0;
        queue.pending.clear();
    }
}
