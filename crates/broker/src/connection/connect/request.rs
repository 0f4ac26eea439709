//! The contents of a CONNECT, and its validation.

use std::time::Duration;

use phalanx_mqtt::{Connect, Property, Reason, Version, topic};

use crate::access::login::Login;
use crate::access::{is_reserved, is_system};
use crate::config::Protocol;
use crate::connection::auth_packet::method_and_data;
use crate::connection::connect::authenticate::Credentials;
use crate::connection::connect::refusal::{Refusal, maximum_packet_size};
use crate::context::Context;
use crate::model::message::{self, Message};
use crate::model::subscriptions::trie::is_shallow;
use crate::session::partition::open::Opening;

/// Maximum length of a client identifier, in bytes.
pub(super) const MAX_CLIENT_ID_BYTES: usize = 1024;
pub(super) const TOO_LONG: &str = "the client identifier is longer than 1024 bytes";

pub(super) const RESERVED: &str = "client identifiers that begin with $bridge/, $cluster/ or $adopted/ are those of bridges and of nodes";

/// The contents of a CONNECT.
pub(super) struct ConnectRequest {
    pub(super) opening: Opening,
    pub(super) credentials: Credentials,
    pub(super) keep_alive: u16,
    pub(super) wants_reasons: bool,
    /// Whether the broker chose the client identifier.
    pub(super) assigned: bool,
    pub(super) asked_expiry: u32,
}

/// Validates a CONNECT.
pub(super) fn read(connect: &Connect<'_>, context: &Context) -> Result<ConnectRequest, Refusal> {
    let limits = &context.config.limits;
    let version = connect.version;
    let refuse = |reason, what| Err(Refusal::of(connect, reason, what));
    let (mut expiry, mut receive_maximum, mut most_aliases) = (0, u16::MAX, 0);
    let (most, mut wants_reasons) = (maximum_packet_size(connect.properties), true);
    for property in connect.properties {
        match property {
            Property::SessionExpiry(seconds) => expiry = seconds,
            Property::ReceiveMaximum(number) => receive_maximum = number,
            Property::TopicAliasMaximum(number) => most_aliases = number,
            Property::RequestProblemInformation(wants) => wants_reasons = wants,
            _ => (),
        }
    }
    if version == Version::V3 {
        expiry = if connect.clean_start { 0 } else { u32::MAX };
        wants_reasons = false;
    }
    if !context.config.security.protocols.contains(&Protocol::of(version)) {
        let what = "this address does not accept this version of MQTT";
        return refuse(Reason::UNSUPPORTED_PROTOCOL_VERSION, what);
    }
    let method = match method_and_data(connect.properties) {
        (None, None) => None,
        (Some(method), Some(data)) => Some((method.to_owned(), data.to_vec())),
        (Some(_), None) => {
            let what = "authentication methods need data in CONNECT";
            return refuse(Reason::BAD_AUTHENTICATION_METHOD, what);
        }
        (None, Some(_)) => {
            let what = "authentication data without a method";
            return refuse(Reason::PROTOCOL_ERROR, what);
        }
    };
    if connect.client_id.len() > MAX_CLIENT_ID_BYTES {
        return refuse(Reason::CLIENT_IDENTIFIER_NOT_VALID, TOO_LONG);
    }
    if is_reserved(connect.client_id) {
        return refuse(Reason::CLIENT_IDENTIFIER_NOT_VALID, RESERVED);
    }
    let assigned = connect.client_id.is_empty();
    if assigned && version == Version::V3 && !connect.clean_start {
        let what = "a persistent session requires a client identifier";
        return refuse(Reason::CLIENT_IDENTIFIER_NOT_VALID, what);
    }
    let mut will = None;
    if let Some(own) = &connect.will {
        if !topic::is_name(own.topic) || is_system(own.topic) || !is_shallow(own.topic) {
            return refuse(
                Reason::TOPIC_NAME_INVALID,
                "clients cannot publish to the will's topic",
            );
        }
        if let Err((reason, what)) = message::check(own.topic, own.properties, own.payload) {
            return refuse(reason, what);
        }
        let delay = own.properties.iter().find_map(|property| match property {
            Property::WillDelay(seconds) => Some(Duration::from_secs(seconds.into())),
            _ => None,
        });
        will = Some((Message::of_will(own), delay.unwrap_or_default()));
    }
    let client_id = match assigned {
        true => context.names.next().into(),
        false => connect.client_id.into(),
    };
    let asked_expiry = expiry;
    let opening = Opening {
        client_id,
        user: None,
        origin: None,
        version,
        clean_start: connect.clean_start,
        must_exist: false,
        expiry: expiry.min(limits.session_expiry),
        receive_maximum,
        most,
        most_aliases,
        will,
    };
    let login = Login::new(connect.username, connect.password, (&opening.client_id, assigned));
    Ok(ConnectRequest {
        opening,
        credentials: Credentials { login, method, most },
        keep_alive: connect.keep_alive,
        wants_reasons,
        assigned,
        asked_expiry,
    })
}
