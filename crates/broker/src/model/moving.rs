//! The move of a session from one node of the cluster to another: see `cluster/moving/mod.rs`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The topic of cuts.
pub(crate) const CUT_TOPIC: &str = "$cluster/cut";

/// The state of a session that moves, or has moved.
#[derive(Clone, Debug, Default)]
pub(crate) enum Moving {
    /// It is this node's.
    #[default]
    No,
    /// It is this node's, and the move with this token has begun. Not recorded.
    Leaving(Arc<str>),
    /// Another node may have it, by the move with this token; empty after a restart.
    Given(Arc<str>),
    /// It becomes this node's by the move with this token. Earlier messages get IDs from the given ones on.
    Arriving { token: Arc<str>, message: u64, delivery: u64 },
    /// It has become this node's. Not recorded: this is not on disk yet.
    Arrived(Arc<str>),
}

/// The kind of a copy, for other nodes.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) enum Holding {
    /// It is this node's.
    Has,
    /// Another node may have it.
    Given,
    /// It may become this node's.
    Arriving,
}

impl Moving {
    /// The state in the journal; 0 for a session of this node.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::No | Self::Leaving(_) | Self::Arrived(_) => 0,
            Self::Given(_) => 1,
            Self::Arriving { .. } => 2,
        }
    }

    /// The state of a session whose move this process does not know; `None` if the code is unknown.
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
            Self::No | Self::Leaving(_) => Holding::Has,
            Self::Given(_) => Holding::Given,
            Self::Arriving { .. } | Self::Arrived(_) => Holding::Arriving,
        }
    }

    /// Whether it is another node's copy, or will be: its messages are not lost when it ends.
    pub(crate) fn is_copy(&self) -> bool {
        matches!(self, Self::Given(_) | Self::Arriving { .. })
    }

    /// The token of the move that is under way.
    pub(crate) fn token(&self) -> Option<&str> {
        match self {
            Self::No | Self::Arrived(_) => None,
            Self::Leaving(token) | Self::Given(token) | Self::Arriving { token, .. } => Some(token),
        }
    }

    /// Whether the move with this token has begun, and nothing was given to the other node.
    pub(crate) fn is_leaving(&self, token: &str) -> bool {
        matches!(self, Self::Leaving(own) if **own == *token)
    }
}

/// A cut: the payload of a message that divides the messages of one node into those for the copy of the holder, and those
/// for the copy of the new node.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Cut {
    /// Identifies the move.
    pub(crate) token: String,
    /// The journals of the holder and of the new node.
    pub(crate) from: String,
    pub(crate) to: String,
    /// The journal of the node whose messages are divided.
    pub(crate) by: String,
    /// The journal of the node that gets this.
    pub(crate) at: String,
}

impl Cut {
    /// Reads the payload of a message.
    pub(crate) fn read(payload: &[u8]) -> Option<Self> {
        serde_json::from_slice(payload).ok()
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        // A structure of texts is always valid.
        serde_json::to_vec(self).unwrap_or_default()
    }
}
