//! CONNECT and its response: validation (`request.rs`), authentication (`authenticate.rs`), authorization
//! (`authorize.rs`), the session (`kept_session.rs` if another node may have it), and CONNACK. `refusal.rs` responds to
//! rejected clients.

mod authenticate;
mod authorize;
pub(crate) mod kept_session;
mod refusal;
mod request;

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use phalanx::net::IoTimeout;
use phalanx::time::{now, time_of_day};
use phalanx_access::scram::Mechanism;
use phalanx_mqtt::{ConnAck, Frame, Kind, Packet, Property, PropertyBuffer, Reason, Version};

use crate::access::Identity;
use crate::connection::auth_packet::proof_properties;
use crate::connection::client::{Shared, sender};
use crate::connection::connect::authenticate::{Authenticated, Candidate};
use crate::connection::connect::authorize::{BANNED, authorize, is_banned};
use crate::connection::connect::kept_session::{NOT_OPEN, let_in};
use crate::connection::connect::refusal::{Refusal, answer_to_malformed, refuse};
use crate::connection::connect::request::{ConnectRequest, read};
use crate::connection::logging;
use crate::context::Context;
use crate::events::Line;
use crate::events::drops::{DropReason, Dropped};
use crate::limits::peer::Peer;
use crate::session::partition::close::Closing;
use crate::session::partition::open::Opened;
use crate::transport::Transport;
use crate::transport::outbox::Outbox;

/// Maximum size of a CONNECT, in bytes. Limited because the client is not yet authenticated, and because its session
/// stores the will.
const MAX_CONNECT_BYTES: usize = 256 * 1024;

/// An accepted client.
pub(super) struct Accepted {
    pub(super) shared: Rc<Shared>,
    pub(super) version: Version,
    pub(super) identity: Identity,
    /// The ID of its session in the journal; 0 if the session is not persistent.
    pub(super) durable_id: u64,
    /// The keep-alive in seconds; 0 for none.
    pub(super) keep_alive: u16,
    pub(super) wants_reasons: bool,
    /// Whether the session outlives the connection.
    pub(super) persistent: bool,
    /// The mechanism of its authentication method, if it had one.
    pub(super) mechanism: Option<Mechanism>,
}

/// Waits for CONNECT and answers it. Returns `None` if the client is rejected or disconnects. Bytes received
/// after the CONNECT remain in `input`.
pub(super) async fn accept_client(
    stream: Transport,
    context: &Rc<Context>,
    input: &mut Vec<u8>,
    peer: Peer,
) -> Option<Accepted> {
    let limits = &context.config.limits;
    let stream = Rc::new(stream);
    let connect = loop {
        match Frame::split(input, limits.packet_size.min(MAX_CONNECT_BYTES)) {
            Ok(Some(frame)) if frame.kind() == Kind::Connect => break frame,
            Ok(None) => (),
            // Not an MQTT client, so it would not understand a response.
            Ok(Some(_)) => {
                let why = (Reason::PROTOCOL_ERROR, "the first packet is not CONNECT");
                logging::refused(context, &peer.origin, (None, None), why);
                return None;
            }
            Err(error) => {
                let why = (error.reason, error.message());
                logging::refused(context, &peer.origin, (None, None), why);
                if let Some(refusal) = answer_to_malformed(input, error) {
                    refuse(&stream, limits, refusal).await;
                }
                return None;
            }
        }
        let timeout = IoTimeout::after(peer.time_left(limits.connect)).until_shutdown();
        match stream.read(input, timeout).await {
            Ok(1..) => (),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                let why = (Reason::MAXIMUM_CONNECT_TIME, "no CONNECT within connect-timeout");
                logging::refused(context, &peer.origin, (None, None), why);
                return None;
            }
            _ => return None,
        }
    };
    let length = connect.length();
    let read = match Packet::decode(connect, Version::V5) {
        Ok(Packet::Connect(connect)) => {
            let read = match peer.refused {
                Some(reason) => Err(Refusal::of(&connect, reason, "")),
                None => read(&connect, context),
            };
            if let Err(Refusal { reason, what, .. }) = &read {
                let names = (Some(connect.client_id), connect.username);
                logging::refused(context, &peer.origin, names, (*reason, what));
            }
            read
        }
        Err(error) => {
            logging::refused(context, &peer.origin, (None, None), (error.reason, error.message()));
            Err(answer_to_malformed(input, error)?)
        }
        Ok(_) => return None,
    };
    input.drain(..length);
    let ConnectRequest {
        mut opening,
        credentials,
        keep_alive,
        wants_reasons,
        assigned,
        asked_expiry,
    } = match read {
        Ok(asked) => asked,
        Err(refusal) => {
            refuse(&stream, limits, refusal).await;
            return None;
        }
    };
    let (version, most, expiry) = (opening.version, opening.most, opening.expiry);
    let clean_start = opening.clean_start;
    let policy = context.access.load_full();
    let mut claimed = None;
    let candidate = Candidate { stream: &stream, context, policy: &policy, peer: &peer };
    // Boxed, because the state of an exchange is large.
    let found = Box::pin(candidate.authenticate(credentials, &mut claimed, input)).await?;
    let (allowed, proof) = match found {
        Ok(Authenticated { user, proof }) => {
            (authorize(context, &policy, user, &mut opening, peer.ip()).await, proof)
        }
        Err(rejection) => (Err(rejection), None),
    };
    let identity = match allowed {
        Ok(identity) => identity,
        Err((reason, why)) => {
            let names = (Some(&*opening.client_id), claimed.as_deref());
            logging::refused(context, &peer.origin, names, (reason, why));
            refuse(&stream, limits, Refusal { version, most, reason, what: "" }).await;
            return None;
        }
    };
    opening.user = identity.user.clone();
    opening.origin = Some(peer.origin);
    let names = (Some(&*identity.client), identity.user.as_deref());
    let asked_keep_alive = keep_alive;
    // MQTT 3.1.1 has no server keep-alive.
    let keep_alive = match (version, limits.keep_alive, keep_alive) {
        (Version::V3, ..) | (_, 0, _) => keep_alive,
        (_, most, 0) => most,
        (_, most, asked) => asked.min(most),
    };
    let mut properties = PropertyBuffer::new();
    if version == Version::V5 {
        let mut say = |property: Property<'_>| {
            // Cannot fail: the properties are short.
            let _ = properties.push(property);
        };
        if assigned {
            say(Property::AssignedClientIdentifier(&opening.client_id));
        }
        if expiry != asked_expiry {
            say(Property::SessionExpiry(expiry));
        }
        if keep_alive != asked_keep_alive {
            say(Property::ServerKeepAlive(keep_alive));
        }
        say(Property::ReceiveMaximum(limits.receive_maximum));
        say(Property::TopicAliasMaximum(limits.topic_alias));
        say(Property::MaximumPacketSize(limits.packet_size as u32));
        if let Some((mechanism, data)) = &proof {
            proof_properties(*mechanism, data).into_iter().for_each(say);
        }
    }
    let mut ack =
        ConnAck { session_present: false, reason: Reason::SUCCESS, properties: properties.get() };
    // All later responses are shorter, except SUBACK and UNSUBACK, which are checked when they are sent.
    if Packet::ConnAck(ack).encode_within(version, most, &mut Vec::new()).is_err() {
        let (reason, what) = (
            Reason::IMPLEMENTATION_SPECIFIC_ERROR,
            "the maximum packet size is too small for CONNACK",
        );
        logging::refused(context, &peer.origin, names, (reason, what));
        refuse(&stream, limits, Refusal { version, most, reason, what }).await;
        return None;
    }
    if let Some(kept) = &context.kept {
        // Boxed, because few brokers keep sessions.
        let found = Box::pin(let_in(context, kept, &identity, !opening.clean_start)).await;
        match found {
            Ok(must_exist) => opening.must_exist = must_exist,
            Err((reason, what)) => {
                logging::refused(context, &peer.origin, names, (reason, what));
                refuse(&stream, limits, Refusal { version, most, reason, what }).await;
                return None;
            }
        }
    }
    let opened = context.stages.sessions.open(opening, context.stages.routing).await;
    let opened = match opened {
        Ok(Ok(opened)) => opened,
        refused => {
            let reason = refused.ok().and_then(Result::err).unwrap_or(Reason::SERVER_BUSY);
            let why = match reason {
                Reason::NOT_AUTHORIZED => "the session belongs to another user",
                Reason::QUOTA_EXCEEDED => "too many sessions, or the journal is full",
                _ => "",
            };
            logging::refused(context, &peer.origin, names, (reason, why));
            refuse(&stream, limits, Refusal { version, most, reason, what: "" }).await;
            return None;
        }
    };
    // Checked after the session is open: a later ban, or the end of the lease, finds the session and disconnects it.
    let ended = match &context.kept {
        _ if is_banned(context, &identity, peer.ip()) => Some(BANNED),
        Some(kept) if !kept.is_open() => Some(NOT_OPEN),
        _ => None,
    };
    if let Some((reason, why)) = ended {
        let closing = Closing { will: false, expiry: None };
        context.stages.close((opened.key, opened.connection_id), closing).await;
        logging::refused(context, &peer.origin, names, (reason, why));
        refuse(&stream, limits, Refusal { version, most, reason, what: "" }).await;
        return None;
    }
    if let Some(peers) = &context.counters.peers
        && !peers.claims.add(&identity, time_of_day(), now())
    {
        context.counters.drops.add(DropReason::ClusterClaim, 1, Dropped::default);
    }
    let of_client = (&identity, &opened);
    let shared = begin(stream, context.clone(), of_client, (version, most), peer, |line| {
        line.plain("version", logging::version(version));
        line.number("keep_alive", keep_alive.into());
        line.flag("clean_start", clean_start);
        line.flag("session_present", opened.present);
    });
    ack.session_present = opened.present;
    shared.outbox.push(&Packet::ConnAck(ack));
    let persistent = expiry > 0;
    let durable_id = opened.durable_id;
    Some(Accepted {
        shared,
        version,
        durable_id,
        identity,
        keep_alive,
        wants_reasons,
        persistent,
        mechanism: proof.map(|(mechanism, _)| mechanism),
    })
}

/// Counts and logs an accepted connection, and starts its sender.
pub(super) fn begin(
    stream: Rc<Transport>,
    context: Rc<Context>,
    (identity, opened): (&Identity, &Opened),
    (version, most): (Version, usize),
    peer: Peer,
    fields: impl FnOnce(&mut Line),
) -> Rc<Shared> {
    context.counters.connections.add(1);
    context.counters.connected.add(1);
    peer.listener.accepted.add(1);
    peer.listener.connections.add(1);
    logging::connected(&context, (identity, &peer.origin), opened.taken_over, fields);
    let outbox = Rc::new(Outbox::new(version, most));
    stream.set_outbox(&outbox);
    let (key, connection_id) = (opened.key, opened.connection_id);
    let spare = Cell::default();
    let shared = Shared { stream, context, outbox, peer, key, connection_id, spare };
    let shared = Rc::new(shared);
    sender::start(&shared);
    shared
}
