//! Takes this node's lease and opens its stream, at the start and after NATS has lost them.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use phalanx::select;
use phalanx::shutdown::{draining, is_draining};
use phalanx::time::now;
use phalanx_nats::{Expected, JetStreamError, Stored, StreamConfig, StreamState};
use phalanx_store::MirrorLost;

use crate::cluster_names::{BATCH, JournalName, OPEN};
use crate::kept::lease::{Lease, Record, StepError, UNKNOWN};
use crate::kept::mirror::{StreamMirror, renew, watch_streams};
use crate::kept::part::PartHeader;
use crate::kept::state::ELECTION_TIME;

/// The number of the first batch that a stream lacks. `stored` is the last message of a batch, `opened` the last message
/// with which a process began to append. Batches from the number in `opened` on did not exist at that time. `None` if the
/// stream has no batches.
fn first_missing_batch(stored: Option<&Stored>, opened: Option<&Stored>) -> Option<u64> {
    let head = |part: &Stored| Some((part.number, PartHeader::decode(&part.payload)?.0));
    let (number, head_of_batch) = stored.and_then(head)?;
    let next = head_of_batch.batch + u64::from(head_of_batch.place + 1 == head_of_batch.count);
    match opened.and_then(head) {
        Some((later, opened)) if later > number => Some(next.min(opened.batch)),
        _ => Some(next),
    }
}

/// Why a journal is not opened: the disk lacks batches before `next` that NATS has.
fn restored_error(stream: &str, next: u64, end: u64) -> String {
    format!(
        "NATS has the journal up to batch {}, and the disk only up to {}: its files were restored or shortened; another \
         node adopts the sessions as NATS has them, if one runs: otherwise start one with an empty persistence-dir; to \
         use those of the disk instead, start this node once with --accept-loss, or delete the stream {stream} of NATS",
        next - 1,
        end.saturating_sub(1),
    )
}

/// A state that is found repeatedly, with the times at which it was first and last found.
pub(super) type Observation<T> = Cell<Option<(T, Duration, Duration)>>;

/// The time since `state`, which is found now, was first found. It restarts if another state was found, or none for longer
/// than `gap`.
fn observed_for<T: Copy + PartialEq>(found: &Observation<T>, state: T, gap: Duration) -> Duration {
    let now = now();
    let is_same = |(known, _, last): &(T, Duration, Duration)| {
        *known == state && now.saturating_sub(*last) <= gap
    };
    let since = found.get().filter(is_same).map_or(now, |(_, since, _)| since);
    found.set(Some((state, since, now)));
    now.saturating_sub(since)
}

impl StreamMirror {
    /// Takes the lease of journal `id`, which has these batches, and opens its stream. Returns the number of the first
    /// batch that the stream lacks.
    pub(super) async fn open_stream(&self, id: u64, own: Range<u64>) -> Result<u64, MirrorLost> {
        let opened = self.retry(async || self.try_open(id, own.clone()).await).await;
        if opened.is_ok() && self.kept.is_behind() {
            self.kept.log_once(
                "NATS had lost this node's lease, or its journal, which is sent to it again",
            );
        }
        self.kept.set_behind(false);
        opened
    }

    /// Repeats a step until it succeeds, the sessions are lost, or the broker drains.
    async fn retry<T>(
        &self,
        step: impl AsyncFn() -> Result<T, StepError>,
    ) -> Result<T, MirrorLost> {
        loop {
            match step().await {
                Ok(done) => return Ok(done),
                Err(StepError::Lost(reason)) => {
                    self.kept.fence(&reason);
                    return Err(MirrorLost(reason));
                }
                Err(StepError::Retry(reason)) => {
                    self.kept
                        .log_once(&format!("the sessions wait for NATS: {reason}; trying again"));
                }
            }
            select(self.pause(), draining()).await;
            if is_draining() {
                return Err(MirrorLost("the broker shut down before NATS was reached".into()));
            }
        }
    }

    /// Finds this node's name, and connects.
    async fn connect(&self, id: u64) -> Result<JournalName, StepError> {
        if let Some(journal) = self.journal.borrow().clone() {
            return Ok(journal);
        }
        let kept = self.kept.clone();
        let read = self.files.call(move |()| kept.identity()).await;
        let (node, access) =
            read.map_err(|error| StepError::Retry(error.to_string()))?.map_err(StepError::Retry)?;
        let journal = JournalName { node: node.to_string(), id };
        self.client.renew(access);
        let running = self.client.clone();
        if !self.spawn(async move { running.run().await }) {
            return Err(StepError::Retry("the processor is full".into()));
        }
        self.kept.set_own_journal(journal.clone());
        self.journal.replace(Some(journal.clone()));
        Ok(journal)
    }

    async fn try_open(&self, id: u64, batches: Range<u64>) -> Result<u64, StepError> {
        let journal = self.connect(id).await?;
        if !self.client.is_connected() {
            return Err(StepError::Retry("it is not connected".into()));
        }
        let (streams, names) = (&self.streams, &self.kept.names);
        let created = self.create(&names.leases()).await?.created;
        let stream = names.stream(&journal);
        let (holder, start) = (journal.to_string(), self.kept.start.clone());
        let own = Record { holder, start, ..Record::default() };
        let known = self.lease.borrow().clone();
        let is_first = known.is_none();
        let lease =
            known.unwrap_or_else(|| Rc::new(Lease::new(streams, names, &journal, own, (0, ""))));
        // Checked before the stream is created: if another node has adopted the journal and deleted its stream, nobody
        // would delete a new one.
        let before = lease.check().await?;
        let is_known = before.as_ref().is_some_and(|(_, before)| !before.is_restored);
        let waited = self.wait_for_lease(is_known || batches.is_empty());
        let (number, before) = before.unzip();
        // Otherwise a renewal would take the lease during the wait.
        let number = if waited.is_ok() { number.unwrap_or_default() } else { UNKNOWN };
        lease.set_known(number, created);
        waited?;
        // Read before the lease is taken: a node that takes the lease later appends its seal after this message.
        let last = self.create(&stream).await?.last;
        let [stored, opened] = [BATCH, OPEN].map(|kind| names.subject(&journal, kind));
        let stored = streams.current_last(&stream.name, &stored).await?;
        let opened = streams.current_last(&stream.name, &opened).await?;
        let next = first_missing_batch(stored.as_ref(), opened.as_ref()).unwrap_or(batches.start);
        // The disk may lack the last batch, if that was not acknowledged.
        if next > batches.end + 1 && !self.accepts_loss {
            return Err(StepError::Retry(restored_error(&stream.name, next, batches.end)));
        }
        // Batches that the disk lacks do not count as stored from now on.
        let next = next.min(batches.end);
        // At a start, if the stream was complete before and only the disk has the last batch, that batch was not
        // acknowledged. The stream then counts as complete without it.
        let was_complete = last > 0 && before.is_some_and(|before| !before.is_incomplete);
        let min_next = batches.end - u64::from(is_first && was_complete && !batches.is_empty());
        let sent_at = now();
        let is_incomplete = next < min_next;
        lease.take(is_incomplete).await?;
        let head = PartHeader { start: self.start, batch: batches.end, place: 0, count: 0 };
        let subject = names.subject(&journal, OPEN);
        let appended = streams.append(&subject, Expected::Last(last), &head.encode(b"")).await;
        match appended {
            Err(JetStreamError::Timeout(_)) if is_incomplete => {
                self.replace_unwritable(&stream.name, last).await?;
            }
            _ => self.unwritable.set(None),
        }
        let opened = appended?;
        if next < batches.start {
            // The journal was written without this stream for some time. The batches in between no longer exist; the disk
            // has the whole journal.
            streams.purge(&stream.name, opened).await?;
        }
        self.last.set(opened);
        self.kept.record_renewal(sent_at);
        if is_first {
            let known = (stream.name, self.last.clone());
            let looking = watch_streams(self.kept.clone(), streams.clone(), known, lease.clone());
            if !self.spawn(renew(self.kept.clone(), lease.clone())) || !self.spawn(looking) {
                return Err(StepError::Retry("the processor is full".into()));
            }
            self.lease.replace(Some(lease));
        }
        Ok(next)
    }

    /// Makes this node wait for the timeout before it takes a lease that NATS does not have, or has from another node that
    /// restored it. NATS may have lost the lease of an adopted journal, which the adopter or a third node then restores:
    /// within the timeout, unless this node was cut off again. The wait is not needed if this node's lease has not expired,
    /// because the journal was then not adopted.
    fn wait_for_lease(&self, is_known: bool) -> Result<(), StepError> {
        if is_known || self.kept.is_open() {
            self.missing.set(None);
            return Ok(());
        }
        // After a gap the wait begins again: NATS may have lost the leases again meanwhile. An attempt may take half of the
        // timeout, the limit of a request.
        match observed_for(&self.missing, (), self.kept.timeout() / 2) < self.kept.timeout() {
            true => Err(StepError::Retry(
                "NATS has no lease of this node; another node may have adopted its sessions".into(),
            )),
            false => Ok(()),
        }
    }

    /// Deletes a stream that lacks batches, and whose last message is `last`, if it has stored nothing for so long that no
    /// election can be the reason, although it has a leader, which has answered other requests, and NATS stores the lease.
    /// The next attempt creates the stream again. Servers of version 2.9 may make a replica the leader that lacks messages
    /// because it was cut off, and that then stores no others. No other node needs the stream, because the lease is marked
    /// as incomplete.
    async fn replace_unwritable(&self, stream: &str, last: u64) -> Result<(), StepError> {
        let timeout = self.kept.timeout();
        if observed_for(&self.unwritable, last, timeout) < timeout.max(ELECTION_TIME) {
            return Ok(());
        }
        self.streams.delete(stream).await?;
        Err(StepError::Retry(format!(
            "the stream {stream} lacks messages and stored nothing; deleted it"
        )))
    }

    /// Creates a stream, unless it exists.
    async fn create(&self, stream: &StreamConfig) -> Result<StreamState, StepError> {
        let created = self.streams.create(stream).await;
        created.map_err(|error| match (&error, stream.replicas) {
            (JetStreamError::Refused(..), 2..) => StepError::Retry(format!(
                "{error}; three servers or more in `cluster` have to be one NATS cluster (`cluster {{}}`); name one \
                 server for one copy of the sessions"
            )),
            _ => error.into(),
        })
    }

    /// Marks the lease as complete for the other nodes. From then on clients may connect.
    pub(super) async fn mark_complete(&self) -> Result<(), MirrorLost> {
        let lease = self.lease.borrow().clone();
        if let Some(lease) = lease.filter(|lease| lease.is_incomplete()) {
            self.retry(async || lease.mark_complete().await).await?;
        }
        self.kept.open();
        Ok(())
    }
}
