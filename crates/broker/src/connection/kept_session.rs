//! Clients whose sessions the cluster keeps: another node may have the session.

use phalanx_mqtt::Reason;

use crate::access::Identity;
use crate::context::Context;
use crate::kept::questions::Whereabouts;
use crate::kept::state::Kept;

/// Why a node that keeps its sessions does not let a client in, if so.
pub(super) async fn not_let_in(
    context: &Context,
    kept: &Kept,
    identity: &Identity,
    resumes: bool,
) -> Option<(Reason, &'static str)> {
    let not_open = (Reason::SERVER_UNAVAILABLE, "this node cannot reach NATS");
    if !kept.is_open() {
        return Some(not_open);
    }
    // If the stage is full, it refuses the client later.
    let sessions = context.stages.sessions;
    if resumes
        && (kept.is_arriving(&identity.client)
            || sessions.has_session(identity.clone()).await == Ok(false))
    {
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
    // The lease may have run out meanwhile.
    (!kept.is_open()).then_some(not_open)
}
