//! The names of a cluster's streams and subjects in NATS.

use std::fmt;

use phalanx_nats::StreamConfig;

/// The names of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct ClusterNames {
    pub(crate) cluster: String,
    /// The number of NATS servers that store each stream.
    pub(crate) replicas: u32,
}

/// A journal: the node that wrote it, and the journal's number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct JournalName {
    pub(crate) node: String,
    pub(crate) id: u64,
}

impl fmt::Display for JournalName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:016x}", self.node, self.id)
    }
}

impl ClusterNames {
    /// The stream of all leases.
    pub(crate) fn leases(&self) -> StreamConfig {
        StreamConfig {
            name: format!("phalanx-{}-leases", self.cluster),
            subjects: vec![self.all_leases()],
            replicas: self.replicas,
            per_subject: Some(1),
        }
    }

    /// The subject filter of all leases.
    pub(crate) fn all_leases(&self) -> String {
        format!("phalanx.{}.lease.*.*", self.cluster)
    }

    /// The subject of a journal's lease.
    pub(crate) fn lease(&self, journal: &JournalName) -> String {
        format!("phalanx.{}.lease.{journal}", self.cluster)
    }

    /// The journal whose lease has this subject.
    pub(crate) fn journal_of(subject: &str) -> Option<JournalName> {
        let mut last = subject.rsplit('.');
        let id = u64::from_str_radix(last.next()?, 16).ok()?;
        Some(JournalName { node: last.next()?.to_owned(), id })
    }

    /// The stream of a journal.
    pub(crate) fn stream(&self, journal: &JournalName) -> StreamConfig {
        StreamConfig {
            name: format!("phalanx-{}-{}-{:016x}", self.cluster, journal.node, journal.id),
            subjects: vec![self.subject(journal, "*")],
            replicas: self.replicas,
            per_subject: None,
        }
    }

    /// The filter that matches the subjects of all journals of a node.
    pub(crate) fn subjects_of(cluster: &str, node: &str) -> String {
        format!("phalanx.{cluster}.journal.{node}.*.*")
    }

    /// A subject of a journal's stream: [`BATCH`], [`OPEN`] or [`SEAL`].
    pub(crate) fn subject(&self, journal: &JournalName, kind: &str) -> String {
        format!("phalanx.{}.journal.{journal}.{kind}", self.cluster)
    }
}

/// The last token of a subject: of a part of a batch, of the message with which a process begins to append, and of the
/// seal with which another node ends the stream.
pub(crate) const BATCH: &str = "batch";
pub(crate) const OPEN: &str = "open";
pub(crate) const SEAL: &str = "seal";
