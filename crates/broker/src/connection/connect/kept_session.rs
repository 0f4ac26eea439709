//! Admits clients whose sessions the cluster keeps. Another node may have the session.

use phalanx_mqtt::Reason;

use crate::access::Identity;
use crate::context::Context;
use crate::kept::questions::SessionLocation;
use crate::kept::state::Kept;

/// The refusal of a node without a lease.
pub(super) const NOT_OPEN: (Reason, &str) =
    (Reason::SERVER_UNAVAILABLE, "this node cannot reach NATS");

/// Admits a client to a node with kept sessions. Returns whether the client's session has to exist here.
///
/// # Errors
/// Why the client is refused.
pub(crate) async fn let_in(
    context: &Context,
    kept: &Kept,
    identity: &Identity,
    resumes: bool,
) -> Result<bool, (Reason, &'static str)> {
    if !kept.is_open() {
        return Err(NOT_OPEN);
    }
    let mut must_exist = false;
    if resumes {
        let Ok(is_here) = context.stages.sessions.has_session(identity.clone()).await else {
            // Refused, because a new session would end the one at another node.
            return Err((Reason::SERVER_BUSY, "the sessions have no capacity for the operation"));
        };
        must_exist = is_here;
        // Checked in this order, because an adoption announces all its sessions before it installs the first.
        if !is_here || kept.is_arriving(&identity.client) {
            match kept.questions.ask(identity.clone()).await {
                SessionLocation::NoOtherNode => (),
                SessionLocation::Here => must_exist = true,
                SessionLocation::OtherNode => {
                    return Err((Reason::USE_ANOTHER_SERVER, "another node has the session"));
                }
                SessionLocation::Full => return Err((Reason::QUOTA_EXCEEDED, "too many sessions")),
                SessionLocation::Unknown => {
                    let what = "a node that may have the session does not answer";
                    return Err((Reason::SERVER_UNAVAILABLE, what));
                }
            }
        }
    }
    // The lease may have expired meanwhile.
    if kept.is_open() { Ok(must_exist) } else { Err(NOT_OPEN) }
}
