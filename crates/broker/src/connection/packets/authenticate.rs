//! AUTH from an accepted client, which re-authenticates.

use std::net::IpAddr;

use phalanx::time::now;
use phalanx_mqtt::{Auth, Reason};

use crate::access::address_key;
use crate::connection::auth_packet::{OTHER_USER, Rejection, data, with_auth};
use crate::connection::client::Connection;
use crate::connection::end::End;
use crate::context::Context;

impl Connection {
    /// Processes AUTH: a step of an exchange that the client has begun (§4.12.1).
    pub(in crate::connection) fn authenticate_again(&mut self, auth: &Auth<'_>) -> Result<(), End> {
        // Cloned, because a part of `self` is borrowed below.
        let shared = self.shared.clone();
        let (context, outbox) = (&shared.context, &shared.outbox);
        let Some(again) = &mut self.client.reauthentication else {
            let what = "AUTH of a client whose CONNECT had no authentication method";
            return Err(End::Because(Reason::PROTOCOL_ERROR, what));
        };
        let mechanism = again.mechanism;
        let data_with = |reason| {
            data(auth, mechanism, reason).map_err(|(reason, what)| End::Because(reason, what))
        };
        let address = shared.peer.ip();
        let (reason, answer) = match again.exchange.take() {
            None => {
                let data = data_with(Reason::RE_AUTHENTICATE)?;
                let at = context.listener;
                let login = self.policy.load().begin_scram(at, mechanism.name(), data);
                let login = login.map_err(|why| refused(context, (None, address), why))?;
                if self.client.identity.user.as_deref() != Some(login.user()) {
                    let why = (Reason::NOT_AUTHORIZED, OTHER_USER);
                    return Err(refused(context, (Some(login.user()), address), why));
                }
                let challenge = login.challenge().to_owned();
                again.exchange = Some((login, now()));
                (Reason::CONTINUE_AUTHENTICATION, challenge)
            }
            Some((login, begun)) => {
                let data = data_with(Reason::CONTINUE_AUTHENTICATION)?;
                if now() - begun > context.config.limits.connect {
                    let what = "the exchange of AUTH took longer than connect-timeout";
                    return Err(End::Because(Reason::NOT_AUTHORIZED, what));
                }
                let client = address_key(address);
                let passwords = context.verifiers.passwords.as_ref();
                let proof = login.finish(passwords, (data, client));
                let who = (Some(login.user()), address);
                let proof = proof.map_err(|why| refused(context, who, why))?;
                (Reason::SUCCESS, proof)
            }
        };
        with_auth(reason, (mechanism, &answer), |packet| {
            if !outbox.takes(packet) {
                let what = "AUTH would exceed the client's maximum packet size";
                return Err(End::Because(Reason::PACKET_TOO_LARGE, what));
            }
            outbox.push(packet);
            Ok(())
        })
    }
}

/// Counts a failed re-authentication by a client from this address. The caller ends the connection.
fn refused(
    context: &Context,
    (user, address): (Option<&str>, Option<IpAddr>),
    (reason, what): Rejection,
) -> End {
    context.refused_logins.record(reason, (user, address), context.stages.control);
    End::Because(reason, what)
}
