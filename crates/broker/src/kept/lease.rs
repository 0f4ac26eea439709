//! The lease of a journal: a message that its holder replaces every second. A replacement has to name the number of the
//! message that it replaces, so only one of several nodes gets the lease.
//!
//! While a node sends its journal to NATS, for the first time or after NATS has lost it, the lease is marked as
//! incomplete. Other nodes do not adopt an incomplete journal, because the part that was not sent would be lost.

use std::cell::{Cell, RefCell};

use phalanx_nats::{Expected, JetStream, JetStreamError};
use serde::{Deserialize, Serialize};

use crate::cluster_names::{ClusterNames, JournalName};

/// A message number that no lease has. While it is the last known one, the lease is not renewed.
pub(crate) const UNKNOWN: u64 = i64::MAX as u64;

/// The contents of a lease.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Record {
    /// The journal of the node that holds the lease, and the start of that node.
    pub(crate) holder: String,
    pub(crate) start: String,
    /// The holder has all sessions of the journal, and its stream is deleted.
    pub(crate) is_adopted: bool,
    /// The stream lacks batches of the journal. Absent from earlier versions.
    #[serde(default)]
    pub(crate) is_incomplete: bool,
    /// The holder has all sessions of the journal, and its stream may be deleted. Absent from earlier versions.
    #[serde(default)]
    pub(crate) is_installed: bool,
    /// The journal of a node that reads the stream before it takes the lease. Absent from earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reader: Option<String>,
    /// Another node wrote this after NATS had lost the lease and the stream, and may have missed that the journal was
    /// adopted. Absent from earlier versions.
    #[serde(default)]
    pub(crate) is_restored: bool,
}

/// Why a step failed.
#[derive(Debug)]
pub(crate) enum StepError {
    /// This process no longer owns the journal.
    Lost(String),
    /// The step may succeed later.
    Retry(String),
}

impl From<JetStreamError> for StepError {
    fn from(error: JetStreamError) -> Self {
        Self::Retry(error.to_string())
    }
}

/// A lease that this process holds or wants to take.
pub(crate) struct Lease {
    streams: JetStream,
    stream: String,
    subject: String,
    own: Record,
    /// The record before [`with_record`](Self::with_record). NATS may still store it late.
    previous: Option<Record>,
    is_incomplete: Cell<bool>,
    is_installed: Cell<bool>,
    /// The number of the last known message, and the creation time of its stream.
    number: Cell<u64>,
    created: RefCell<String>,
    /// Whether the message with this number is this process's, or the one to replace. Not after a failed attempt or a gap.
    is_certain: Cell<bool>,
}

impl Lease {
    /// Creates the lease of a journal, to be held with the record `own`. `number` identifies its last message, 0 for
    /// none, in the stream created at `created`.
    pub(crate) fn new(
        streams: &JetStream,
        names: &ClusterNames,
        journal: &JournalName,
        own: Record,
        (number, created): (u64, &str),
    ) -> Self {
        Self {
            streams: streams.clone(),
            stream: names.leases().name,
            subject: names.lease(journal),
            is_incomplete: Cell::new(own.is_incomplete),
            is_installed: Cell::new(own.is_installed),
            own,
            previous: None,
            number: Cell::new(number),
            created: RefCell::new(created.to_owned()),
            is_certain: Cell::new(true),
        }
    }

    /// The current record, and its number.
    async fn current(&self) -> Result<Option<(u64, Record)>, StepError> {
        let Some(found) = self.streams.current_last(&self.stream, &self.subject).await? else {
            return Ok(None);
        };
        let record = serde_json::from_slice(&found.payload);
        let record = record.map_err(|error| StepError::Retry(format!("a lease: {error}")))?;
        Ok(Some((found.number, record)))
    }

    /// The same lease, held with the record `own` from now on.
    pub(crate) fn with_record(self, own: Record) -> Self {
        let is_incomplete = Cell::new(own.is_incomplete);
        let is_installed = Cell::new(own.is_installed);
        Self { is_incomplete, is_installed, previous: Some(self.own), own, ..self }
    }

    /// Checks that no other node has the lease of this node's own journal. Returns the record of an earlier start, if
    /// any, and its number.
    pub(crate) async fn check(&self) -> Result<Option<(u64, Record)>, StepError> {
        let found = self.current().await?;
        if let Some((_, record)) = &found
            && (record.holder != self.own.holder || record.is_adopted)
        {
            return Err(StepError::Lost(format!("{} has adopted them", record.holder)));
        }
        Ok(found)
    }

    /// Sets the number of the last known message, 0 for none, and the creation time of its stream. The next renewal replaces
    /// this message.
    pub(crate) fn set_known(&self, number: u64, created: String) {
        self.number.set(number);
        self.created.replace(created);
    }

    /// Whether NATS has lost the lease since it was last known, or an operator has removed it. If so, its number is
    /// meaningless.
    pub(crate) async fn is_lost(&self) -> Result<bool, StepError> {
        let created = match self.streams.state(&self.stream).await {
            Err(JetStreamError::NoStream) => return Ok(true),
            state => state?.created,
        };
        let is_same = *self.created.borrow() == created;
        let Some((number, record)) = self.current().await? else { return Ok(true) };
        // A new creation time alone does not prove a loss: clusters of servers up to 2.12.14 also change it if two
        // clients create the stream at the same time.
        let is_known = number >= self.number.get() && self.is_own(&record);
        if is_known {
            self.created.replace(created);
        }
        Ok(!is_same && !is_known)
    }

    /// Takes the lease of this node's own journal, unless another node has changed it since the [check](Self::check).
    /// `is_incomplete` says that the stream lacks batches.
    pub(crate) async fn take(&self, is_incomplete: bool) -> Result<(), StepError> {
        self.is_incomplete.set(is_incomplete);
        self.put(&self.record()).await
    }

    /// Marks the stream as complete.
    pub(crate) async fn mark_complete(&self) -> Result<(), StepError> {
        self.is_incomplete.set(false);
        self.renew().await
    }

    /// Whether the stream lacks batches of the journal.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.is_incomplete.get()
    }

    /// The record that this process renews.
    fn record(&self) -> Record {
        let (is_incomplete, is_installed) = (self.is_incomplete.get(), self.is_installed.get());
        Record { is_incomplete, is_installed, ..self.own.clone() }
    }

    /// Whether this process wrote a record, possibly renewed by a node that reads the stream.
    fn is_own(&self, record: &Record) -> bool {
        let is_of = |other: &Record| {
            (&record.holder, &record.start) == (&other.holder, &other.start)
                && (other.reader.is_none() || other.reader == record.reader)
        };
        is_of(&self.own) || self.previous.as_ref().is_some_and(is_of)
    }

    /// Whether a record that is [own](Self::is_own) differs from the current holder, start or reader, and has to be
    /// replaced.
    fn is_outdated(&self, record: &Record) -> bool {
        let Record { holder, start, reader, .. } = &self.own;
        (&record.holder, &record.start, &record.reader) != (holder, start, reader)
    }

    /// Why this process does not have the lease, according to its record.
    fn why_lost(&self, record: &Record) -> String {
        match (record.holder == self.own.holder, record.start == self.own.start) {
            (false, _) => format!("{} has adopted them", record.holder),
            (true, true) if record.reader.is_none() => format!("{} runs again", record.holder),
            (true, true) => "another node reads the journal".into(),
            (true, false) => format!("{} runs again, in another process", record.holder),
        }
    }

    /// Replaces the last known message.
    async fn put(&self, record: &Record) -> Result<(), StepError> {
        let payload = serde_json::to_vec(record).unwrap_or_default();
        let expected = Expected::LastOfSubject(self.number.get());
        self.number.set(self.streams.append(&self.subject, expected, &payload).await?);
        self.is_certain.set(true);
        Ok(())
    }

    /// Renews the lease, to show that this process is alive.
    pub(crate) async fn renew(&self) -> Result<(), StepError> {
        if !self.is_certain.get() && self.is_of_another_node().await? {
            return Err(StepError::Retry("NATS has lost the lease".into()));
        }
        let failed = match self.put(&self.record()).await {
            Ok(()) => return Ok(()),
            Err(failed) => failed,
        };
        self.is_certain.set(false);
        // An attempt without an answer may still have been stored. A deposed leader may answer with an earlier record,
        // which is ignored.
        match self.current().await? {
            Some((number, record)) if number >= self.number.get() && self.is_own(&record) => {
                let is_later = number > self.number.replace(number);
                self.is_certain.set(true);
                if is_later && self.is_outdated(&record) {
                    // Without a pause, because the node that reads the stream soon replaces the record again.
                    return self.put(&self.record()).await;
                }
            }
            // If NATS had lost the lease, another node may have restored it with an earlier start.
            Some((number, record)) if number > self.number.get() && !self.is_lost().await? => {
                return Err(StepError::Lost(self.why_lost(&record)));
            }
            _ => (),
        }
        Err(failed)
    }

    /// Makes the next renewal read the lease first, because NATS may have lost it.
    pub(crate) fn mark_uncertain(&self) {
        self.is_certain.set(false);
    }

    /// Whether the message with the last known number is another node's, because NATS has lost the lease, so that its
    /// numbers began again.
    async fn is_of_another_node(&self) -> Result<bool, StepError> {
        let found = self.current().await?;
        let is_other = found
            .is_some_and(|(number, record)| number == self.number.get() && !self.is_own(&record));
        Ok(is_other && self.is_lost().await?)
    }

    /// Marks that this node has all sessions of the journal, before it deletes the stream.
    pub(crate) async fn mark_installed(&self) -> Result<(), StepError> {
        self.is_installed.set(true);
        self.renew().await
    }

    /// Marks the end of the adoption, after the stream was deleted.
    pub(crate) async fn mark_adopted(&self) -> Result<(), StepError> {
        self.put(&Record { is_adopted: true, ..self.record() }).await
    }
}
