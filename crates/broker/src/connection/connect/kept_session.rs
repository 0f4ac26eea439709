//! Clients whose sessions the cluster keeps: another node may have the session.

use phalanx_mqtt::Reason;

use crate::access::Identity;
use crate::context::Context;
use crate::kept::questions::Whereabouts;
use crate::kept::state::Kept;

/// The refusal of a node without a lease.
pub(super) const NOT_OPEN: (Reason, &str) =
    (Reason::SERVER_UNAVAILABLE, "this node cannot reach NATS");

/// Why a node that keeps its sessions does not let a client in, if so.
pub(crate) async fn not_let_in(
    context: &Context,
    kept: &Kept,
    identity: &Identity,
    resumes: bool,
) -> Option<(Reason, &'static str)> {
    if !kept.is_open() {
        return Some(NOT_OPEN);
    }
    if resumes {
        let Ok(is_here) = context.stages.sessions.has_session(identity.clone()).await else {
            // A new session would end that of another node.
            return Some((Reason::SERVER_BUSY, "the sessions have no capacity for the operation"));
        };
        // In this order: an adoption announces all of its sessions before it installs the first.
        if !is_here || kept.is_arriving(&identity.client) {
            match kept.questions.ask(identity.clone()).await {
                Whereabouts::NotElsewhere => (),
                Whereabouts::Elsewhere => {
                    return Some((Reason::USE_ANOTHER_SERVER, "another node has the session"));
                }
                Whereabouts::Unknown => {
                    let what = "a node that may have the session does not answer";
                    return Some((Reason::SERVER_UNAVAILABLE, what));
                }
            }
        }
    }
    // The lease may have run out meanwhile.
    (!kept.is_open()).then_some(NOT_OPEN)
}
