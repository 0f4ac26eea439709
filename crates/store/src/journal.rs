//! The stages that keep a store: a cohort of entries is one write and one sync.
//!
//! Entries of all processors come to the one that has the journal, in the stage `journal`, whose
//! handler gathers them. One operation at a time, of the stage `journal disk`, takes what is
//! gathered, writes it, brings it to the disk and answers all; what comes meanwhile is the next
//! commit's. Alone, an entry waits for one sync; together, ten thousand wait for little more.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use phalanx::blocking::{BlockingStage, blocking};
use phalanx::fs::Dir;
use phalanx::shutdown::is_draining;
use phalanx::stage::{Cohort, PartitionedCohortStage};
use phalanx::task::Reply;
use phalanx::{Graph, SharedStage};

use crate::entry::Entry;
use crate::error::AppendError;
use crate::source::segment_name;
use crate::status::{Counters, Status};
use crate::writer::Writer;

/// There is one journal; its key names the processor that has it.
const JOURNAL: u64 = 0;

type AppendResult = Result<(), AppendError>;

/// A handle on a store that is at work: what is appended is kept. Clones are the same.
///
/// Made by [`Store::declare`](crate::Store::declare).
#[derive(Clone)]
pub struct Journal {
    stage: PartitionedCohortStage<Entry, AppendResult>,
    counters: Arc<Counters>,
    reserve_bytes: u64,
}

/// The journal on the processor that has it.
struct JournalTask {
    directory: Dir,
    /// None while an operation has it, and for good if that has not ended well.
    writer: RefCell<Option<Writer>>,
    queue: RefCell<AppendQueue>,
    max_pending_bytes: usize,
    disk: SharedStage<()>,
    remover: BlockingStage<()>,
    counters: Arc<Counters>,
}

#[derive(Default)]
struct AppendQueue {
    pending: VecDeque<(Entry, Reply<AppendResult>)>,
    /// The entries', in bytes.
    bytes: usize,
    /// Whether a commit is under way. It takes what is gathered when it is done.
    committing: bool,
}

impl Journal {
    /// Has the store keep `entry`. The future is ready once it is on the disk: then, and not before, may
    /// somebody be told. It is under way before the future is awaited, and whether or not it is.
    ///
    /// What is appended on one processor is kept in that order; what is appended on several is in no
    /// order, unless one waits for the other. After a crash, what was not acknowledged may be there or
    /// not: an entry wholly or not at all, and none without those that one processor has appended
    /// before it.
    ///
    /// # Panics
    /// When it is not called within an operation, as all invocations do.
    ///
    /// # Errors
    /// [`AppendError`] says why it was not kept. After [`Broken`](AppendError::Broken) nothing will be,
    /// and of what was waiting then nobody knows: the program should end and be started again.
    pub fn append(&self, entry: Entry) -> impl Future<Output = Result<(), AppendError>> + use<> {
        let call = self.stage.call(JOURNAL, entry);
        async move { call.await? }
    }

    /// How much there is, and what it has cost.
    pub fn status(&self) -> Status {
        self.counters.status()
    }

    /// The room that is set aside on the disk, in bytes: what [`Options`](crate::Options) say.
    pub fn reserve_bytes(&self) -> u64 {
        self.reserve_bytes
    }

    /// Declares the stages.
    pub(crate) fn declare(graph: &mut Graph, writer: Writer) -> Self {
        let counters = Arc::new(Counters::default());
        counters.measure(&writer);
        let reserve_bytes = writer.reserve.bytes;
        let place = graph.keep("journal");
        let disk = graph.shared("journal disk", ());
        let remover = blocking(graph, "journal files").threads(1).state(());
        let make = {
            let counters = counters.clone();
            // Only the processor that has the journal is ever handed an item, and takes the writer.
            let writer = Mutex::new(Some(writer));
            move || {
                let writer = writer.lock().unwrap_or_else(PoisonError::into_inner).take();
                let writer = writer.expect("one processor has the journal");
                Rc::new(JournalTask {
                    directory: writer.directory.clone(),
                    max_pending_bytes: writer.options.max_pending_bytes,
                    writer: RefCell::new(Some(writer)),
                    queue: RefCell::default(),
                    disk,
                    remover,
                    counters: counters.clone(),
                })
            }
        };
        let handler = move |task: &mut Option<Rc<JournalTask>>,
                            cohort: &mut Cohort<Entry, AppendResult>| {
            let task = task.get_or_insert_with(&make);
            if task.enqueue(cohort) {
                let committing = Committing::new(task.clone());
                // Where the processor is full, what was gathered is dropped, and its callers told.
                let _ = disk.dispatch(move |_| committing.commit());
            }
        };
        // In order: what a processor appends stays in its order.
        let stage = graph.stage_at(place).partitioned_cohort(|_| None, handler);
        Self { stage, counters, reserve_bytes }
    }
}

impl JournalTask {
    /// Takes a cohort's entries. Whether a commit must be begun.
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
        !queue.pending.is_empty() && !std::mem::replace(&mut queue.committing, true)
    }

    /// As many entries as are written at once. Those that may not be kept are told.
    fn take(&self, writer: &Writer) -> (Vec<Entry>, Vec<Reply<AppendResult>>) {
        let (mut entries, mut replies, mut bytes) = (Vec::new(), Vec::new(), 0);
        let queue = &mut *self.queue.borrow_mut();
        while let Some((entry, _)) = queue.pending.front()
            && (bytes == 0 || bytes + entry.len() <= writer.batch_bytes())
        {
            let (entry, reply) = queue.pending.pop_front().expect("looked at");
            queue.bytes -= entry.len();
            match writer.admit(&entry, bytes) {
                Err(refused) => reply.send(Err(refused)),
                Ok(()) => {
                    bytes += entry.len();
                    entries.push(entry);
                    replies.push(reply);
                }
            }
        }
        (entries, replies)
    }

    fn has_pending(&self) -> bool {
        !self.queue.borrow().pending.is_empty()
    }
}

/// The one operation that commits. Whoever drops it in the middle closes the journal: nobody knows
/// then what is on the disk.
struct Committing {
    task: Rc<JournalTask>,
    writer: Option<Writer>,
    is_writing: bool,
}

impl Committing {
    fn new(task: Rc<JournalTask>) -> Self {
        let writer = task.writer.borrow_mut().take();
        Self { task, writer, is_writing: false }
    }

    /// Commits what is gathered, and what is gathered meanwhile, and cleans, until nothing is left.
    async fn commit(mut self) {
        let task = self.task.clone();
        let Some(writer) = &mut self.writer else {
            let what = "a commit was broken off".to_owned();
            let pending = std::mem::take(&mut task.queue.borrow_mut().pending);
            let broken = AppendError::Broken { what };
            return pending.into_iter().for_each(|(_, reply)| reply.send(Err(broken.clone())));
        };
        let mut is_urgent = false;
        while is_urgent || task.has_pending() {
            writer.reserve.ensure(&task.directory, task.remover).await;
            let (entries, replies) = task.take(writer);
            self.is_writing = true;
            let mut kept = writer.commit(&entries).await;
            if kept.as_ref().is_err_and(AppendError::is_out_of_room)
                && writer.reserve.release(&task.directory, task.remover).await
            {
                kept = writer.commit(&entries).await;
            }
            self.is_writing = false;
            task.counters.committed(writer, entries.len(), &kept);
            replies.into_iter().for_each(|reply| reply.send(kept.clone()));
            writer.put_position().await;
            // After the next one that goes well, if not after this.
            is_urgent = kept.is_ok() && task.clean(writer).await;
        }
    }
}

impl JournalTask {
    /// Makes ready what is to be cleaned with the next commit, if anything is. Whether that is to be soon, though there may
    /// be nothing else to commit.
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
        let removable = writer.take_removable();
        if !removable.is_empty() {
            let (directory, remover) = (self.directory.clone(), self.remover);
            let remove = move |_: &()| {
                for number in removable {
                    // What is not taken away now is when the store is opened again.
                    let _ = directory.remove(segment_name(number).as_bytes());
                }
            };
            match writer.reserve.is_low() {
                // What is written next needs the room.
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

impl Drop for Committing {
    fn drop(&mut self) {
        let queue = &mut *self.task.queue.borrow_mut();
        queue.committing = false;
        if !self.is_writing {
            *self.task.writer.borrow_mut() = self.writer.take();
        }
        queue.bytes = 0;
        queue.pending.clear();
    }
}
