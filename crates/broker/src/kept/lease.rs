//! The lease of a journal: a message that its holder replaces every second. A node needs the number of the
//! message to replace it, so only one of several nodes gets the lease.

use std::cell::Cell;

use phalanx_nats::{Expected, JetStream, JetStreamError};
use serde::{Deserialize, Serialize};

use crate::cluster_names::{ClusterNames, JournalName};

/// The contents of a lease.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Record {
    /// The journal whose node has the lease, and the start of that node.
    pub(crate) holder: String,
    pub(crate) start: String,
    /// The holder has all sessions of the journal, which is deleted.
    pub(crate) is_adopted: bool,
}

/// Why a step failed.
#[derive(Debug)]
pub(crate) enum Failed {
    /// This process does not own the journal any more.
    Lost(String),
    /// It may succeed later.
    Again(String),
}

impl From<JetStreamError> for Failed {
    fn from(error: JetStreamError) -> Self {
        Self::Again(error.to_string())
    }
}

/// A lease of this process.
pub(crate) struct Lease {
    streams: JetStream,
    stream: String,
    subject: String,
    own: Record,
    /// The number of the last known message.
    number: Cell<u64>,
}

impl Lease {
    /// The lease of a journal, to be held by `own`. Its last message has this number; 0 for none.
    pub(crate) fn new(
        streams: &JetStream,
        names: &ClusterNames,
        journal: &JournalName,
        own: Record,
        number: u64,
    ) -> Self {
        Self {
            streams: streams.clone(),
            stream: names.leases().name,
            subject: names.lease(journal),
            own,
            number: Cell::new(number),
        }
    }

    /// The current record, and its number. Perhaps an earlier one.
    async fn current(&self) -> Result<Option<(u64, Record)>, Failed> {
        let Some(found) = self.streams.last(&self.stream, &self.subject).await? else {
            return Ok(None);
        };
        let record = serde_json::from_slice(&found.payload);
        let record = record.map_err(|error| Failed::Again(format!("a lease: {error}")))?;
        Ok(Some((found.number, record)))
    }

    /// Takes the lease of this node's own journal, unless another node has it.
    pub(crate) async fn take(&self) -> Result<(), Failed> {
        let found = self.current().await?;
        if let Some((_, record)) = &found
            && (record.holder != self.own.holder || record.is_adopted)
        {
            return Err(Failed::Lost(format!("{} has adopted them", record.holder)));
        }
        self.number.set(found.map_or(0, |(number, _)| number));
        self.put(&self.own).await
    }

    /// Replaces the last known message.
    async fn put(&self, record: &Record) -> Result<(), Failed> {
        let payload = serde_json::to_vec(record).unwrap_or_default();
        let expected = Expected::LastOfSubject(self.number.get());
        self.number.set(self.streams.append(&self.subject, expected, &payload).await?);
        Ok(())
    }

    /// Shows that this process lives.
    pub(crate) async fn renew(&self) -> Result<(), Failed> {
        let failed = match self.put(&self.own).await {
            Ok(()) => return Ok(()),
            Err(failed) => failed,
        };
        // An attempt without an answer may have been stored. An earlier record is that of a replica that lags behind.
        match self.current().await? {
            Some((number, record)) if number > self.number.get() => match record == self.own {
                true => self.number.set(number),
                false => {
                    return Err(Failed::Lost(format!("{} has adopted them", record.holder)));
                }
            },
            _ => (),
        }
        Err(failed)
    }

    /// Shows that the holder has all sessions of the journal.
    pub(crate) async fn finish(&self) -> Result<(), Failed> {
        self.put(&Record { is_adopted: true, ..self.own.clone() }).await
    }
}
