//! Authorization of an authenticated client: its identifier, its will, and bans.

use std::net::IpAddr;
use std::sync::Arc;

use phalanx::time::now;
use phalanx_access::Action;
use phalanx_mqtt::Reason;

use crate::access::permissions::Verdict;
use crate::access::{Identity, Policy, is_reserved};
use crate::connection::auth_packet::Rejection;
use crate::connection::connect::request::{MAX_CLIENT_ID_BYTES, RESERVED, TOO_LONG};
use crate::connection::end::UNDECIDED;
use crate::context::Context;
use crate::session::partition::open::Opening;

pub(super) const BANNED: (Reason, &str) = (Reason::BANNED, "banned by an operator");

const WILL_DENIED: Rejection = (Reason::NOT_AUTHORIZED, "the client may not publish its will");

/// Authorizes a client that has logged in as `user`, and returns its identity. The client identifier may be replaced by
/// the user name.
pub(super) async fn authorize(
    context: &Context,
    policy: &Policy,
    user: Option<Arc<str>>,
    opening: &mut Opening,
    address: Option<IpAddr>,
) -> Result<Identity, Rejection> {
    if let (true, Some(name)) = (context.config.security.user_as_client_id, &user) {
        if is_reserved(name) {
            return Err((Reason::NOT_AUTHORIZED, RESERVED));
        }
        if name.len() > MAX_CLIENT_ID_BYTES {
            return Err((Reason::NOT_AUTHORIZED, TOO_LONG));
        }
        // A token or a service may return a user name that CONNECT cannot carry.
        if name.is_empty() || name.contains('\0') {
            return Err((Reason::NOT_AUTHORIZED, "the user name cannot be a client identifier"));
        }
        opening.client_id = name.clone();
    }
    let identity = Identity { user, client: opening.client_id.clone() };
    if let Some((will, _)) = &opening.will {
        if !policy.may_publish(&identity, &will.topic) {
            return Err(WILL_DENIED);
        }
        if policy.permissions(&identity).is_some() {
            let (client, topic) = ((&identity, address), (Action::Publish, &*will.topic));
            // Boxed, because few brokers have a service.
            match Box::pin(policy.decide(&context.verifiers, client, topic)).await.0 {
                Verdict::Allowed => (),
                Verdict::Denied => return Err(WILL_DENIED),
                Verdict::Undecided => return Err((Reason::SERVER_UNAVAILABLE, UNDECIDED)),
            }
        }
    }
    match is_banned(context, &identity, address) {
        true => Err(BANNED),
        false => Ok(identity),
    }
}

/// Whether an operator has banned the client.
pub(super) fn is_banned(context: &Context, identity: &Identity, address: Option<IpAddr>) -> bool {
    let names = (Some(&*identity.client), identity.user.as_deref());
    context.bans.is_banned(names, address, now())
}
