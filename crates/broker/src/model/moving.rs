//! The move of a session from one node of the cluster to another: see `cluster/moving/mod.rs`.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The topic of cuts.
pub(crate) const CUT_TOPIC: &str = "$cluster/cut";

/// The state of a session with respect to moves.
#[derive(Clone, Debug, Default)]
pub(crate) enum Moving {
    /// The session belongs to this node.
    #[default]
    No,
    /// The session belongs to this node, and the move with this token has begun. Not recorded.
    Leaving { token: Arc<str>, marks: Marks },
    /// The move with this token gave the session to another node, which may have it. The token is empty after a restart.
    Given(Arc<str>),
    /// The session arrives by the move with this token. Messages from the holder get IDs from the given ones on.
    Arriving { token: Arc<str>, message: u64, delivery: u64 },
    /// The session has arrived and belongs to this node, but this is not on disk yet. Not recorded.
    Arrived(Arc<str>),
}

/// The marks in the queue of a session that leaves: their number and size. The gauges of messages do not count them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    pub(crate) count: usize,
    pub(crate) bytes: usize,
}

/// The kind of a session's copy, as told to other nodes.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) enum Holding {
    /// The session belongs to this node.
    Has,
    /// Another node may have the session.
    Given,
    /// The session may become this node's.
    Arriving,
}

impl Moving {
    /// The state in the journal; 0 for a session of this node.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::No | Self::Leaving { .. } | Self::Arrived(_) => 0,
            Self::Given(_) => 1,
            Self::Arriving { .. } => 2,
        }
    }

    /// The state of a recovered session, whose move this process does not know; `None` if the code is unknown.
    pub(crate) fn of_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::No),
            1 => Some(Self::Given("".into())),
            2 => Some(Self::Arriving { token: "".into(), message: 0, delivery: 0 }),
            _ => None,
        }
    }

    pub(crate) fn holding(&self) -> Holding {
        match self {
            Self::No | Self::Leaving { .. } => Holding::Has,
            Self::Given(_) => Holding::Given,
            Self::Arriving { .. } | Self::Arrived(_) => Holding::Arriving,
        }
    }

    /// Whether another node has the session, or still has it. Its messages are then not lost when this copy ends.
    pub(crate) fn is_copy(&self) -> bool {
        matches!(self, Self::Given(_) | Self::Arriving { .. })
    }

    /// Records a mark of this size in the queue.
    pub(crate) fn add_mark(&mut self, size: usize) {
        if let Self::Leaving { marks, .. } = self {
            (marks.count, marks.bytes) = (marks.count + 1, marks.bytes + size);
        }
    }

    /// The token of the move that is under way.
    pub(crate) fn token(&self) -> Option<&str> {
        match self {
            Self::No | Self::Arrived(_) => None,
            Self::Leaving { token, .. } | Self::Given(token) | Self::Arriving { token, .. } => {
                Some(token)
            }
        }
    }

    /// Whether the move with this token has begun, but the session was not given to the other node yet.
    pub(crate) fn is_leaving(&self, token: &str) -> bool {
        matches!(self, Self::Leaving { token: own, .. } if **own == *token)
    }
}

/// A cut: the payload of a message that divides one node's messages for a moving session. The messages before it are for
/// the holder's copy, and those after it for the new node's copy.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Cut {
    /// Identifies the move.
    pub(crate) token: String,
    /// The journals of the holder and of the new node.
    pub(crate) from: String,
    pub(crate) to: String,
    /// The journal of the node whose messages are divided.
    pub(crate) by: String,
    /// The journal of the node that receives this cut.
    pub(crate) at: String,
}

/// The other nodes, by journal, as known when this node divides its messages. A node in neither list has no messages that
/// count: an operator has given it up by deleting its lease, and the router keeps its session until that expires.
#[derive(Debug, Default)]
pub(crate) struct CutNodes {
    /// Nodes with a lease. Each of them gets the cut, and answers with its own.
    pub(crate) leased: BTreeSet<String>,
    /// Nodes for which the cut has to wait: the messages for an adopted node's sessions have to be handed over, and the lease
    /// of a node that has just joined has to be read.
    pub(crate) unready: BTreeSet<String>,
}

impl Cut {
    /// Reads the payload of a message.
    pub(crate) fn read(payload: &[u8]) -> Option<Self> {
        serde_json::from_slice(payload).ok()
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        // Cannot fail: the structure has only strings.
        serde_json::to_vec(self).unwrap_or_default()
    }
}
