//! This node's stream: the mirror of its journal.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use phalanx::blocking::BlockingStage;
use phalanx::net::{Bytes, Resolver};
use phalanx::shutdown::{draining, is_draining};
use phalanx::time::now;
use phalanx::{SharedStage, select, sleep};
use phalanx_nats::{Client, Expected, JetStream, JetStreamError, Options, Stored};
use phalanx_store::{LocalFuture, Mirror, MirrorLost};

use crate::cluster_names::{BATCH, JournalName};
use crate::kept::lease::{Lease, StepError};
use crate::kept::opening::Observation;
use crate::kept::part::{MAX_HEADERS_BYTES, MAX_PART_BYTES, PartHeader};
use crate::kept::state::{ELECTION_TIME, Kept, RENEWALS_PER_TIMEOUT};

/// Maximum number of parts sent before the first is stored. They fit the connection's limit on unsent data.
const MAX_PARTS_AHEAD: usize = 8;

/// How often a failed step is repeated within the timeout.
const RETRIES_PER_TIMEOUT: u32 = 25;

/// During shutdown, the connection ends when no batch was appended for this time.
const SHUTDOWN_IDLE_TIME: Duration = Duration::from_millis(500);

/// This node's stream. It runs on the journal's processor, with a separate connection to NATS.
pub(crate) struct StreamMirror {
    pub(super) kept: Arc<Kept>,
    pub(super) client: Client,
    pub(super) streams: JetStream,
    stage: SharedStage<()>,
    /// Reads files.
    pub(super) files: BlockingStage<()>,
    /// Identifies this process in the stream.
    pub(super) start: u64,
    /// Whether to use the journal on disk even if NATS has later batches.
    pub(super) accepts_loss: bool,
    pub(super) journal: RefCell<Option<JournalName>>,
    /// The number of the last known message in the stream.
    pub(super) last: Rc<Cell<u64>>,
    last_append: Cell<Duration>,
    /// Whether the batch of the last append is still being stored.
    is_storing: Cell<bool>,
    /// When the lease of a journal that may have been adopted was first and last found missing.
    pub(super) missing: Observation<()>,
    /// When the stream was first and last found to store nothing after this message, although NATS stores the lease.
    pub(super) unwritable: Observation<u64>,
    /// The lease of the journal, once it is open.
    pub(super) lease: RefCell<Option<Rc<Lease>>>,
}

impl StreamMirror {
    /// Connects to NATS. `stage` runs the mirror's operations. If `accepts_loss`, the journal on disk is used even if
    /// NATS has later batches.
    pub(crate) fn start(
        kept: Arc<Kept>,
        stage: SharedStage<()>,
        (files, resolver): (BlockingStage<()>, Resolver),
        accepts_loss: bool,
    ) -> Rc<Self> {
        let timeout = kept.timeout();
        let for_errors = kept.clone();
        let options = Options {
            name: format!("phalanx journal {}", kept.cluster.node),
            // Short enough that another server is found before the lease expires.
            connect_timeout: timeout / 3,
            ping_interval: timeout / 10,
            write_timeout: timeout,
            reconnect_delay: (timeout / RETRIES_PER_TIMEOUT / 2, timeout / RENEWALS_PER_TIMEOUT),
            linger: ELECTION_TIME,
            on_error: Rc::new(move |message| {
                for_errors.log_once(&format!("NATS reports: {message}"))
            }),
            ..Options::default()
        };
        let client = Client::new(options, resolver);
        let inbox = format!("phalanx.{}.inbox.{}", kept.cluster.name, kept.start);
        let streams = JetStream::new(&client, &format!("{inbox}.journal"), timeout / 2);
        let start = u64::from_str_radix(&kept.start, 16).unwrap_or_default();
        let mirror = Rc::new(Self {
            kept,
            client,
            streams,
            stage,
            files,
            start,
            accepts_loss,
            journal: RefCell::default(),
            last: Rc::default(),
            last_append: Cell::default(),
            is_storing: Cell::new(false),
            missing: Cell::default(),
            unwritable: Cell::default(),
            lease: RefCell::default(),
        });
        let ending = mirror.clone();
        // If the processor is full, the connection ends after `linger` at shutdown.
        let _ = stage.dispatch(move |_| async move { ending.stop_when_idle().await });
        mirror
    }

    /// Starts an operation of the mirror. Returns false if the processor is full.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + 'static) -> bool {
        self.stage.dispatch(move |_| work).is_ok()
    }

    /// Ends the connection during shutdown, after the last batch. A batch that is being stored gets [`ELECTION_TIME`].
    async fn stop_when_idle(&self) {
        draining().await;
        let max_idle_time =
            || if self.is_storing.get() { ELECTION_TIME } else { SHUTDOWN_IDLE_TIME };
        while now().saturating_sub(self.last_append.get()) <= max_idle_time() {
            sleep(SHUTDOWN_IDLE_TIME).await;
        }
        self.client.stop();
    }

    /// Waits before a step is repeated.
    pub(super) async fn pause(&self) {
        sleep(self.kept.timeout() / RETRIES_PER_TIMEOUT).await;
    }

    fn subject(&self, kind: &str) -> String {
        let journal = self.journal.borrow();
        journal.as_ref().map_or_else(String::new, |journal| self.kept.names.subject(journal, kind))
    }

    /// Maximum size of a part, in bytes. It is smaller if the server accepts less than usual.
    fn part_size(&self) -> usize {
        let max_payload = self.client.max_payload().unwrap_or(usize::MAX);
        MAX_PART_BYTES.min(max_payload.saturating_sub(MAX_HEADERS_BYTES)).max(1)
    }

    /// Sends the next parts of a batch without waiting: up to `most`, of `size` bytes each.
    fn send(
        &self,
        number: u64,
        batch: &[u8],
        (done, size): (usize, usize),
        max_parts: usize,
    ) -> Vec<PendingAppend> {
        let (subject, count) = (self.subject(BATCH), batch.len().div_ceil(size));
        let parts = batch.chunks(size).enumerate().skip(done).take(max_parts);
        let parts = parts.zip(self.last.get()..).map(|((place, part), last)| {
            let (place, count) = (place as u32, count as u32);
            let head = PartHeader { start: self.start, batch: number, place, count };
            let stored = self.streams.append(&subject, Expected::Last(last), &head.encode(part));
            Box::pin(stored) as PendingAppend
        });
        parts.collect()
    }

    /// Stores a batch whose first parts were already sent.
    async fn store(
        &self,
        number: u64,
        batch: Bytes,
        (mut size, mut sent): (usize, Vec<PendingAppend>),
    ) -> Result<(), MirrorLost> {
        let (mut done, mut first, mut max_parts) = (0, self.last.get(), MAX_PARTS_AHEAD);
        loop {
            let mut failed = None;
            for stored in sent {
                match stored.await {
                    Ok(last) if failed.is_none() => self.last.set(last),
                    Ok(_) => (),
                    Err(error) => failed = failed.or(Some(error.to_string())),
                }
            }
            while let Some(reason) = failed {
                self.kept.log_once(&format!("the journal waits for NATS: {reason}"));
                self.pause().await;
                failed = match self.find_last().await {
                    Ok(Some(found)) if !is_part(&found, number, &batch, size) => {
                        // A part of another size was stored late. Begin the batch again after it.
                        (done, first, max_parts) = (0, self.last.get(), 1);
                        None
                    }
                    Ok(_) => None,
                    Err(StepError::Lost(reason)) => {
                        self.kept.fence(&reason);
                        return Err(MirrorLost(reason));
                    }
                    Err(StepError::Retry(reason)) => Some(reason),
                };
                if self.is_behind() {
                    return Err(MirrorLost("NATS has lost the journal".into()));
                }
                if is_draining() && now().saturating_sub(self.last_append.get()) > ELECTION_TIME {
                    return Err(MirrorLost("NATS did not store it before the shutdown".into()));
                }
            }
            done = done.max((self.last.get() - first) as usize);
            if done >= batch.len().div_ceil(size) {
                self.kept.metrics.lag.set(0);
                return Ok(());
            }
            if done > 0 {
                max_parts = MAX_PARTS_AHEAD;
            }
            if self.part_size() < size {
                // Another server accepts only smaller parts, so begin the batch again with these. Earlier parts may still
                // be stored for a time. Therefore the first new part is sent alone: it fails if an earlier one is stored.
                sleep(self.kept.timeout()).await;
                (size, done, first, max_parts) =
                    (self.part_size().min(size), 0, self.last.get(), 1);
            }
            sent = self.send(number, &batch, (done, size), max_parts);
        }
    }

    /// Finds the last message of the stream after an attempt with an unknown outcome. Returns it if it is new.
    async fn find_last(&self) -> Result<Option<Stored>, StepError> {
        let journal = self.journal.borrow().clone();
        let Some(stream) = journal.map(|journal| self.kept.names.stream(&journal).name) else {
            return Err(StepError::Retry("the stream is not open".into()));
        };
        // The leader answers. If it has fewer messages than known, it was restored from an earlier state.
        let last = match self.streams.state(&stream).await {
            Err(JetStreamError::NoStream) => 0,
            state => state?.last,
        };
        if last < self.last.get() {
            self.kept.set_behind(true);
        }
        if last <= self.last.get() {
            return Ok(None);
        }
        let found = self.streams.get(&stream, last).await?;
        let found = found.ok_or_else(|| StepError::Retry("a replica lags behind".into()))?;
        let is_own =
            PartHeader::decode(&found.payload).is_some_and(|(head, _)| head.start == self.start);
        if !is_own || found.subject != self.subject(BATCH) {
            return Err(StepError::Lost("another process ended their stream".into()));
        }
        self.last.set(last);
        Ok(Some(found))
    }

    /// Removes the batches before `first`, which is found by binary search.
    async fn remove_before(&self, first: u64) -> Result<(), StepError> {
        let journal = self.journal.borrow().clone();
        let Some(stream) = journal.map(|journal| self.kept.names.stream(&journal).name) else {
            return Ok(());
        };
        let state = self.streams.state(&stream).await?;
        let (mut low, mut high) = (state.first, state.last + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            let found = self.streams.next(&stream, middle, &self.subject(BATCH)).await?;
            let found = found
                .as_ref()
                .and_then(|message| Some((message.number, PartHeader::decode(&message.payload)?)));
            match found {
                Some((number, (head, _))) if head.batch < first => low = number + 1,
                _ => high = middle,
            }
        }
        Ok(self.streams.purge(&stream, low).await?)
    }
}

/// Whether a message is a part of this batch, if the batch is divided into parts of this size.
fn is_part(message: &Stored, number: u64, batch: &[u8], size: usize) -> bool {
    PartHeader::decode(&message.payload).is_some_and(|(head, part)| {
        head.batch == number
            && head.count as usize == batch.len().div_ceil(size)
            && batch.chunks(size).nth(head.place as usize) == Some(part)
    })
}

/// Renews the lease of this node's journal until it is lost.
pub(super) async fn renew(kept: Arc<Kept>, lease: Rc<Lease>) {
    let mut pause = RENEWALS_PER_TIMEOUT;
    loop {
        select(sleep(kept.timeout() / pause), draining()).await;
        if is_draining() {
            return;
        }
        let sent_at = now();
        if !kept.has_renewed_recently() {
            lease.mark_uncertain();
        }
        pause = match lease.renew().await {
            Ok(()) => {
                kept.record_renewal(sent_at);
                RENEWALS_PER_TIMEOUT
            }
            Err(StepError::Lost(reason)) => return kept.fence(&reason),
            Err(StepError::Retry(_)) => RETRIES_PER_TIMEOUT,
        };
    }
}

/// Checks until shutdown that NATS still has the journal's stream, up to the `last` message, and the lease. An operator
/// may delete them, and NATS may lose them or restore an earlier state. If another node then creates the stream of leases
/// again, its numbers begin again.
pub(crate) async fn watch_streams(
    kept: Arc<Kept>,
    streams: JetStream,
    (stream, last): (String, Rc<Cell<u64>>),
    lease: Rc<Lease>,
) {
    let mut was_short = false;
    while kept.lost_reason().is_none() && !is_draining() {
        let known = last.get();
        let state = streams.state(&stream).await;
        // The stream may have been opened again during the check, so two checks in a row have to find it shorter than
        // known.
        let is_short = state.as_ref().is_ok_and(|state| state.last < known.min(last.get()));
        let is_missing = is_short && was_short || state == Err(JetStreamError::NoStream);
        was_short = is_short;
        if is_missing || matches!(lease.is_lost().await, Ok(true)) {
            kept.set_behind(true);
        }
        select(sleep(kept.timeout() / RENEWALS_PER_TIMEOUT), draining()).await;
    }
}

/// A guard that marks the end of an attempt to store a batch.
struct StoringGuard<'a>(&'a Cell<bool>);

impl Drop for StoringGuard<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

type PendingAppend = std::pin::Pin<Box<dyn Future<Output = Result<u64, JetStreamError>>>>;

impl Mirror for StreamMirror {
    fn open(&self, id: u64, first: u64, next: u64) -> LocalFuture<'_, Result<u64, MirrorLost>> {
        Box::pin(self.open_stream(id, first..next))
    }

    fn is_behind(&self) -> bool {
        self.kept.is_behind()
    }

    fn complete(&self) -> LocalFuture<'_, Result<(), MirrorLost>> {
        Box::pin(self.mark_complete())
    }

    fn append(&self, number: u64, batch: Bytes) -> LocalFuture<'_, Result<(), MirrorLost>> {
        self.last_append.set(now());
        self.kept.metrics.lag.set(batch.len() as i64);
        self.is_storing.set(true);
        let size = self.part_size();
        let sent = self.send(number, &batch, (0, size), MAX_PARTS_AHEAD);
        let storing = StoringGuard(&self.is_storing);
        Box::pin(async move {
            let _storing = storing;
            self.store(number, batch, (size, sent)).await
        })
    }

    fn trim(self: Rc<Self>, first: u64) -> LocalFuture<'static, ()> {
        Box::pin(async move {
            // If this fails, the next call removes the remaining batches.
            let _ = self.remove_before(first).await;
        })
    }
}
