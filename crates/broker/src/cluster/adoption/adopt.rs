//! Adopts the sessions of a lost node: reads its stream, takes its lease, seals the stream, and adds the sessions to this
//! node.
//!
//! The lost node keeps its lease until the stream has been read: if no node can read it, the only copy is on that node's
//! disk.

use std::cell::Cell;
use std::collections::HashSet;
use std::path::Path;

use phalanx::shutdown::is_draining;
use phalanx::task::Either;
use phalanx::time::now;
use phalanx::{select, sleep};
use phalanx_nats::{Expected, JetStream, JetStreamError};

use crate::cluster::adoption::installing::{install, release};
use crate::cluster_names::{BATCH, JournalName, OPEN, SEAL};
use crate::context::Context;
use crate::durable::Clocks;
use crate::durable::recovery::RecoveredState;
use crate::kept::lease::{Lease, Record, StepError};
use crate::kept::part::{BatchAssembler, PartHeader};
use crate::kept::state::{Kept, RENEWALS_PER_TIMEOUT};

/// How often a failed step is repeated within the timeout.
const RETRIES_PER_TIMEOUT: u32 = 25;

const LOST_STREAM: &str = "NATS has lost its stream";

/// The number of the last message read from a stream, and the state up to it.
type ReadState = (u64, RecoveredState);

/// The progress of an adoption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cluster) enum Progress {
    /// The stream is being read or was read. The adoption ends if NATS loses the lease, because the lost node's disk has
    /// the sessions.
    Read,
    /// This node has added some of the sessions.
    Installing,
    /// This node has added all sessions.
    Installed,
}

/// Adopts a journal whose lease has expired, if this node is the first to take the lease. `lease_version` is the number
/// of the lease's message and the creation time of its stream. Returns whether the journal was adopted.
pub(in crate::cluster) async fn adopt(
    context: &Context,
    kept: &Kept,
    streams: &JetStream,
    journal: &JournalName,
    lease_version: (u64, &str),
) -> bool {
    let Some(own) = kept.own_journal() else { return false };
    let Some(known) = kept.with_others(|others| others.get(journal).cloned()) else { return false };
    if known.is_unreadable {
        return false;
    }
    let (node, stream) = (&journal.node, kept.names.stream(journal).name);
    // Once the sessions are installed, the holder deletes the stream.
    let is_installed = known.lease.is_installed;
    let has_no_stream = !is_installed && has_stream(streams, &stream).await == Ok(false);
    if known.lease.is_incomplete || has_no_stream {
        if known.lease.holder != journal.to_string() {
            // An adoption failed because the stream was lost. Give the lease back to the lost node.
            let record = returning_record(journal, &known.start);
            let _ = Lease::new(streams, &kept.names, journal, record, lease_version).renew().await;
        }
        kept.log_once_about(journal, &format!(
            "node {node} is lost, and NATS does not have its journal: its sessions are only on its disk; start it again, \
             with the files of adopted-journal if it has moved them there; or delete the message {} of NATS to give the \
             sessions up",
            kept.names.lease(journal)
        ));
        return false;
    }
    let started = now();
    let reader = Some(own.to_string());
    // If this node held the lease before, it may already have added some of the sessions.
    let is_first = known.lease.holder == journal.to_string();
    let record = Record { reader, ..known.lease };
    let lease = Lease::new(streams, &kept.names, journal, record, lease_version);
    if lease.renew().await.is_err() {
        return false;
    }
    kept.log_once_about(journal, &format!("node {node} is lost: reading its journal"));
    let progress = Cell::new(Progress::Read);
    let read = retry_with_renewals(kept, &lease, journal, &progress, async || {
        if is_installed {
            // An earlier adoption added all sessions, but ended before the lease said so.
            return Ok(None);
        }
        match streams.state(&stream).await {
            Ok(state) => {
                let all = read(context, kept, streams, journal, state.last).await?;
                Ok(Some((state.last, all)))
            }
            Err(JetStreamError::NoStream) => Err(StepError::Lost(LOST_STREAM.into())),
            Err(error) => Err(error.into()),
        }
    });
    let fail = |reason| {
        kept.log_once_about(
            journal,
            &format!("node {node} is lost, and its sessions are not adopted: {reason}"),
        );
        false
    };
    let read = match read.await {
        Ok(read) => read,
        Err(reason) => return fail(reason),
    };
    let (holder, start) = (own.to_string(), kept.start.clone());
    let record = Record { holder, start, is_installed, ..Record::default() };
    let lease = lease.with_record(record);
    if let Err(reason) = take(kept, &lease, journal, &progress).await {
        return fail(reason);
    }
    kept.add_adopted(&known.start);
    let counts = || (kept.metrics.adopted.count(), kept.metrics.beyond_limit.count());
    let before = counts();
    kept.log_once_about(journal, &format!("node {node} is lost: adopting its sessions"));
    if read.is_none() {
        progress.set(Progress::Installed);
    }
    let read = Cell::new(read);
    let adopted = retry_with_renewals(kept, &lease, journal, &progress, async || {
        adopt_all(context, kept, streams, (journal, &lease), (&read, &progress)).await?;
        match lease.mark_adopted().await {
            // `Leases::read` writes the lost lease again, as adopted.
            Err(StepError::Retry(_)) if lease.is_lost().await? => Ok(()),
            finished => finished,
        }
    });
    let adopted = adopted.await;
    if let (Ok(()), Some(peers)) = (&adopted, &context.counters.peers) {
        peers.handovers.note_adopted(&journal.to_string());
    }
    kept.set_arriving(HashSet::new());
    kept.set_deferred(None);
    let line = match &adopted {
        Ok(()) => {
            let elapsed = now().saturating_sub(started).as_secs_f64();
            let (adopted, beyond_limit) = counts();
            let (count, beyond_limit) = (adopted - before.0, beyond_limit - before.1);
            let line = format!("adopted {count} sessions of node {node} in {elapsed:.1} s");
            match beyond_limit {
                0 => line,
                _ => format!(
                    "{line}, {beyond_limit} of them beyond max-sessions: this node accepts no new sessions until it has fewer; raise \
                     max-sessions, or let clients connect to other nodes"
                ),
            }
        }
        Err(reason) => {
            if progress.get() == Progress::Read {
                // Nothing was added, so the lost node may return with its sessions.
                kept.remove_adopted(&known.start);
            }
            let _ = release(context, journal).await;
            let returning_record = returning_record(journal, &known.start);
            if progress.get() != Progress::Installed
                && has_stream(streams, &stream).await == Ok(false)
            {
                // Immediately, because the lost node gives its sessions up if it returns before this.
                let _ = lease.with_record(returning_record).renew().await;
            } else if progress.get() == Progress::Read && is_first && !is_draining() {
                // Give the lease back, because no other node takes it from a running node.
                let record = Record { is_incomplete: false, ..returning_record };
                let _ = lease.with_record(record).renew().await;
            }
            format!("adoption of {journal} ended: {reason}")
        }
    };
    kept.log_once_about(journal, &line);
    adopted.is_ok()
}

/// Takes the lease of a journal that was read. Repeats the attempt while its outcome is unknown.
///
/// # Errors
/// Why this node does not get the lease.
pub(in crate::cluster) async fn take(
    kept: &Kept,
    lease: &Lease,
    journal: &JournalName,
    progress: &Cell<Progress>,
) -> Result<(), String> {
    retry_with_renewals(kept, lease, journal, progress, async || lease.renew().await).await
}

/// The lease that gives a journal back to its own node, which had this start, if that is known. Marked as incomplete, so
/// that no other node adopts the journal.
fn returning_record(journal: &JournalName, start: &str) -> Record {
    let (holder, start) = (journal.to_string(), start.to_owned());
    Record { holder, start, is_incomplete: true, ..Record::default() }
}

/// Whether NATS has a journal's stream. An empty stream does not count: the lost one was just created again.
pub(in crate::cluster) async fn has_stream(
    streams: &JetStream,
    stream: &str,
) -> Result<bool, JetStreamError> {
    match streams.state(stream).await {
        Ok(state) => Ok(state.last > 0),
        Err(JetStreamError::NoStream) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Repeats a step until it succeeds, and renews the lease meanwhile. If NATS loses the lease, `progress` determines
/// whether the step continues.
///
/// # Errors
/// Why the step can no longer succeed.
async fn retry_with_renewals<T>(
    kept: &Kept,
    lease: &Lease,
    journal: &JournalName,
    progress: &Cell<Progress>,
    step: impl AsyncFn() -> Result<T, StepError>,
) -> Result<T, String> {
    let work = Box::pin(async {
        loop {
            match step().await {
                Ok(done) => return Ok(done),
                Err(StepError::Lost(reason)) => return Err(reason),
                Err(StepError::Retry(reason)) => {
                    kept.log_once_about(
                        journal,
                        &format!("adoption of {journal}: {reason}; trying again"),
                    );
                }
            }
            if is_draining() {
                return Err("the broker shuts down".into());
            }
            sleep(kept.timeout() / RETRIES_PER_TIMEOUT).await;
        }
    });
    let renewals = Box::pin(async {
        loop {
            // The lease is renewed during shutdown, too: the adoption ends only with its next failure.
            sleep(kept.timeout() / RENEWALS_PER_TIMEOUT).await;
            match lease.renew().await {
                Err(StepError::Lost(reason)) => return reason,
                Err(StepError::Retry(_))
                    if progress.get() == Progress::Read
                        && matches!(lease.is_lost().await, Ok(true)) =>
                {
                    return "NATS has lost its lease".into();
                }
                _ => (),
            }
        }
    });
    match select(work, renewals).await {
        Either::Left(done) => done,
        Either::Right(reason) => Err(reason),
    }
}

/// Seals the stream, adds all sessions, and deletes the stream. `earlier` is the state as read before the seal.
async fn adopt_all(
    context: &Context,
    kept: &Kept,
    streams: &JetStream,
    (journal, lease): (&JournalName, &Lease),
    (earlier, progress): (&Cell<Option<ReadState>>, &Cell<Progress>),
) -> Result<(), StepError> {
    if progress.get() != Progress::Installed {
        let last = match seal(kept, streams, journal).await {
            Err(JetStreamError::NoStream) => return Err(StepError::Lost(LOST_STREAM.into())),
            sealed => sealed?,
        };
        let state = match earlier.take().filter(|(of, _)| of + 1 == last) {
            Some((_, state)) => state,
            None => read(context, kept, streams, journal, last).await?,
        };
        progress.set(Progress::Installing);
        install(context, kept, journal, state).await?;
        progress.set(Progress::Installed);
    }
    match lease.mark_installed().await {
        // `Leases::read` writes the lost lease again, as adopted.
        Err(StepError::Retry(_)) if lease.is_lost().await? => (),
        shown => shown?,
    }
    match streams.delete(&kept.names.stream(journal).name).await {
        Ok(()) | Err(JetStreamError::NoStream) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Appends the seal, after which the lost node cannot append a batch. Returns the number of the seal's message.
async fn seal(
    kept: &Kept,
    streams: &JetStream,
    journal: &JournalName,
) -> Result<u64, JetStreamError> {
    // Distinguishes a missing stream from JetStream being unavailable, which fails with another error.
    streams.state(&kept.names.stream(journal).name).await?;
    let start = u64::from_str_radix(&kept.start, 16).unwrap_or_default();
    let head = PartHeader { start, batch: 0, place: 0, count: 0 };
    let subject = kept.names.subject(journal, SEAL);
    streams.append(&subject, Expected::Any, &head.encode(b"")).await
}

/// Reads the stream up to this message.
async fn read(
    context: &Context,
    kept: &Kept,
    streams: &JetStream,
    journal: &JournalName,
    last: u64,
) -> Result<RecoveredState, StepError> {
    let stream = kept.names.stream(journal).name;
    let unreadable = |what: String| {
        kept.with_others(|others| others.get_mut(journal).map(|other| other.is_unreadable = true));
        let (lease, node) = (kept.names.lease(journal), &journal.node);
        StepError::Lost(format!(
            "{what}; delete the stream {stream} of NATS, and the message {lease} if it names another holder, and start \
             node {node} again; if a later version of the broker wrote it, start a node of that version"
        ))
    };
    let [batch, open] = [BATCH, OPEN].map(|kind| kept.names.subject(journal, kind));
    let first = streams.state(&stream).await?.first;
    let (mut range, mut joined) =
        (streams.range(&stream, first, last), BatchAssembler::new(journal.id));
    loop {
        let message = match range.next().await {
            Ok(Some(message)) => message,
            Ok(None) => break,
            // The replica that answered may lag behind. Ask the leader, which has all messages.
            Err(JetStreamError::Missing(number)) => {
                return match streams
                    .current_next(&stream, number, &kept.names.subject(journal, "*"))
                    .await?
                {
                    Some(next) if next.number > number => {
                        Err(unreadable(format!("message {number} of its stream is missing")))
                    }
                    _ => Err(JetStreamError::Missing(number).into()),
                };
            }
            Err(error) => return Err(error.into()),
        };
        if message.subject == batch {
            let number = message.number;
            let wrong = |what| unreadable(format!("message {number} of its stream: {what}"));
            joined.push(&message.payload).map_err(wrong)?;
        } else if message.subject == open {
            joined.open(&message.payload);
        }
    }
    let (partitions, clocks) = (context.stages.sessions.partitions(), Clocks::read());
    let path = stream.clone();
    // On a separate thread, because it may take seconds.
    let recovered = context.bridges.files.call(move |()| {
        let recovered = joined.batches.recover(Path::new(&path));
        let recovered = recovered.map_err(|error| error.to_string())?;
        RecoveredState::at(recovered, partitions, clocks)
    });
    let recovered = recovered.await.map_err(|error| StepError::Retry(error.to_string()))?;
    recovered.map_err(unreadable)
}
