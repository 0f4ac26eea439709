//! The state that the stages share with the operations that serve the other nodes of a cluster.
//!
//! | file | contents |
//! |---|---|
//! | `interest.rs` | the topic filters of this node's clients, and which nodes have them |
//! | `filters.rs` | the announced filters, coarsened if a topic filter has many conditions |
//! | `members.rs` | the members of shared subscriptions that are online at this node |
//! | `claims.rs` | clients that connected here |
//! | `handovers.rs` | awaited handovers of messages for adopted sessions |
//! | `moves.rs` | moves of sessions between this node and others |
//! | `status.rs` | the states of the other nodes |

mod claims;
mod filters;
pub(crate) mod handovers;
pub(crate) mod interest;
pub(crate) mod members;
pub(crate) mod moves;
mod status;

use std::sync::Arc;

use crate::model::node_capacity::NodeCapacities;
use crate::peers::claims::Claims;
use crate::peers::handovers::Handovers;
use crate::peers::interest::Interest;
use crate::peers::members::Members;
use crate::peers::moves::Moves;
use crate::peers::status::Status;
pub(crate) use claims::{Claim, count_fitting};
pub(crate) use status::{KeptMetrics, KeptView, LeaseView, NodeStatus};

/// The state of a cluster, shared by the stages.
pub(crate) struct Peers {
    /// Identifies the start of this node.
    pub(crate) id: Box<str>,
    pub(crate) interest: Interest,
    pub(crate) members: Members,
    pub(crate) node_capacities: NodeCapacities,
    pub(crate) claims: Claims,
    pub(crate) handovers: Handovers,
    pub(crate) moves: Moves,
    pub(crate) status: Status,
}

impl Peers {
    pub(crate) fn new(id: &str) -> Arc<Self> {
        Arc::new(Self {
            id: id.into(),
            interest: Interest::default(),
            members: Members::new(),
            node_capacities: NodeCapacities::default(),
            claims: Claims::default(),
            handovers: Handovers::default(),
            moves: Moves::default(),
            status: Status::new(),
        })
    }
}
