//! Recovery: restores the sessions' partitions and the router from the store.

use std::collections::{HashMap, VecDeque};
use std::num::NonZero;
use std::ops::RangeFrom;
use std::sync::Arc;
use std::time::Duration;

use phalanx::runtime::report;
use phalanx_mqtt::{PacketId, QoS, SubscribeOptions};
use phalanx_store::{Delivery, Phase, Recovered, SessionId};

use crate::access::{Covered, Identity, is_of_node};
use crate::content::parse::{self, ParsedSubscription};
use crate::content::size::size;
use crate::durable::encode::{Clocks, Extras, of_flags};
use crate::durable::recovered_messages::RecoveredMessages;
use crate::model::client_key::{ClientKey, partition_of};
use crate::model::delivery::How;
use crate::model::inflight::Inflight;
use crate::model::maps::few_map::FewMap;
use crate::model::message::Message;
use crate::model::moving::Moving;
use crate::model::session::{Adoptions, Queued, Session, Will};
use crate::model::subscriptions::subscription_size::SubscriptionSize;
use crate::requests::{Subscriber, SubscriptionRequest};

/// The recovered state.
#[derive(Default)]
pub(crate) struct RecoveredState {
    /// By partition.
    pub(crate) sessions: Vec<RecoveredSessions>,
    pub(crate) routes: RecoveredRoutes,
    /// The lowest unused session ID.
    pub(crate) next_session: u64,
}

/// The sessions of one partition.
#[derive(Default)]
pub(crate) struct RecoveredSessions {
    /// In the order of their slots.
    pub(crate) sessions: Vec<RecoveredSession>,
    /// The number of sessions; it remains after they were moved to their slots.
    pub(crate) count: u32,
    /// IDs of sessions that had ended, and their unpublished wills.
    pub(crate) ended: Vec<u64>,
    pub(crate) pending_wills: Vec<(u64, Arc<str>, Message)>,
    /// The time of the recovery.
    pub(crate) clocks: Clocks,
}

/// A recovered session, before its partition is created.
pub(crate) struct RecoveredSession {
    pub(crate) client_id: Arc<str>,
    pub(crate) user: Option<Arc<str>>,
    pub(crate) number: u64,
    expiry: u32,
    left: u64,
    will: Option<Will>,
    /// Wills of earlier connections that the router had not accepted.
    pub(crate) pending_wills: Vec<Message>,
    /// The adoptions of the session so far.
    pub(crate) adoptions: Adoptions,
    pub(crate) moves: u32,
    pub(crate) moving: Moving,
    keys: FewMap<Box<str>, SubscriptionSize>,
    queue: VecDeque<Queued>,
    /// In the order in which they were sent.
    inflight: Vec<(PacketId, Inflight)>,
    received: Vec<PacketId>,
}

/// The number of IDs reserved for the messages of an arriving session. IDs have 64 bits, so they do not run out.
const MAX_ARRIVING: u64 = 1 << 32;

impl RecoveredSession {
    fn new(client_id: Arc<str>, number: u64) -> Self {
        Self {
            client_id,
            user: None,
            number,
            expiry: 0,
            left: 0,
            will: None,
            pending_wills: Vec::new(),
            adoptions: None,
            moves: 0,
            moving: Moving::No,
            keys: FewMap::default(),
            queue: VecDeque::new(),
            inflight: Vec::new(),
            received: Vec::new(),
        }
    }

    /// A session that holds messages for other sessions, for an hour at most.
    pub(crate) fn holder(client_id: Arc<str>, messages: Vec<Arc<Message>>) -> Self {
        let how = How { qos: QoS::AtLeastOnce, ..How::default() };
        let queued = |message| Queued { message, how: how.clone(), number: 0 };
        let queue = messages.into_iter().map(queued).collect();
        Self { queue, expiry: 3600, ..Self::new(client_id, 0) }
    }

    /// The messages in flight and in the queue.
    pub(crate) fn messages(&self) -> impl Iterator<Item = &Arc<Message>> {
        let inflight = self.inflight.iter().filter_map(|(_, entry)| entry.message.as_ref());
        inflight.map(|(message, _)| message).chain(self.queue.iter().map(|queued| &queued.message))
    }

    /// The number of deliveries in flight and in the queue.
    pub(crate) fn deliveries(&self) -> usize {
        self.queue.len() + self.inflight.len()
    }

    /// The number of IDs that the session needs. If it is arriving from another node, its messages come later.
    pub(crate) fn ids(&self) -> u64 {
        match self.moving {
            Moving::Arriving { .. } => MAX_ARRIVING,
            _ => self.deliveries() as u64,
        }
    }

    /// The packet identifiers of messages that must not be accepted twice.
    pub(crate) fn received(&self) -> &[PacketId] {
        &self.received
    }

    /// Converts the session for a node to the session of an awaited handover from that node. It keeps the received packet
    /// identifiers and the messages.
    pub(crate) fn into_handover(self, client_id: Arc<str>) -> Self {
        Self { client_id, keys: FewMap::default(), adoptions: None, ..self }
    }

    /// Gives new IDs to all deliveries, and to those of their messages that have none. Returns the deliveries in order.
    pub(crate) fn renumber(
        &mut self,
        (messages, deliveries): &mut (RangeFrom<u64>, RangeFrom<u64>),
    ) -> Vec<Renumbered> {
        let mut all = Vec::with_capacity(self.deliveries());
        let mut next =
            || (messages.next().unwrap_or_default(), deliveries.next().unwrap_or_default());
        for (packet, own) in &mut self.inflight {
            let (message, delivery) = next();
            own.number = delivery;
            let packet = packet.get();
            let (phase, is_new, held) = match &own.message {
                Some((held, how)) => {
                    let is_new = assign_number(held, message);
                    (Phase::Sent(packet), is_new, Some((held.clone(), how.clone())))
                }
                None => (Phase::Received(packet), false, None),
            };
            let (message, how) = held.unzip();
            let how = how.unwrap_or_default();
            all.push(Renumbered { message, is_new, how, delivery, phase });
        }
        for queued in &mut self.queue {
            let (message, delivery) = next();
            queued.number = delivery;
            let is_new = assign_number(&queued.message, message);
            let (message, how) = (Some(queued.message.clone()), queued.how.clone());
            all.push(Renumbered { message, is_new, how, delivery, phase: Phase::Queued });
        }
        all
    }

    /// Converts it to a session of a partition.
    pub(crate) fn into_session(self) -> Session {
        let Self { client_id, user, number, expiry, left, will, .. } = self;
        let Self { keys, queue, inflight, received, adoptions, moves, moving, .. } = self;
        let mut session = Session {
            number,
            lasts: true,
            expiry,
            left,
            will: will.map(Box::new),
            shared: keys.keys().filter(|key| key.starts_with("$share/")).count(),
            routed: !keys.is_empty() || is_of_node(&client_id),
            keys,
            adoptions,
            moves,
            moving,
            sweep: Duration::ZERO,
            queued_bytes: queue.iter().map(|queued| queued.message.size()).sum(),
            queue,
            inflight: inflight.into_iter().collect(),
            ..Session::new(client_id, user)
        };
        session.received.extend(received.into_iter().map(|packet| (packet, None)));
        session
    }
}

/// Numbers a message, unless it already has a number. Returns whether it had none.
fn assign_number(message: &Message, number: u64) -> bool {
    let is_new = message.number() == 0;
    if is_new {
        message.set_number(number);
    }
    is_new
}

/// A delivery with its new ID.
pub(crate) struct Renumbered {
    /// `None` if the receiver has the message.
    pub(crate) message: Option<Arc<Message>>,
    /// Whether the journal does not have the message yet.
    pub(crate) is_new: bool,
    pub(crate) how: How,
    pub(crate) delivery: u64,
    pub(crate) phase: Phase,
}

/// The router's state.
#[derive(Default)]
pub(crate) struct RecoveredRoutes {
    /// Clients and their subscriptions.
    pub(crate) clients: Vec<(Subscriber, Vec<SubscriptionRequest>)>,
    pub(crate) retained: Vec<Arc<Message>>,
    /// The lowest unused IDs.
    pub(crate) next_message: u64,
    pub(crate) next_delivery: u64,
}

impl RecoveredState {
    /// An empty state for `partitions` partitions.
    pub(crate) fn empty(partitions: usize) -> Self {
        let sessions = (0..partitions).map(|_| RecoveredSessions::default()).collect();
        Self { sessions, ..Self::default() }
    }

    /// Converts a recovered store, at the given time of day.
    ///
    /// # Errors
    /// A description of data that this version does not understand.
    pub(crate) fn of(
        recovered: Recovered,
        partitions: usize,
        day: Duration,
    ) -> Result<Self, String> {
        Self::at(recovered, partitions, Clocks { now: Duration::ZERO, day })
    }

    /// Like [`of`](Self::of), while the broker runs.
    ///
    /// # Errors
    /// Same as [`of`](Self::of).
    pub(crate) fn at(
        mut recovered: Recovered,
        partitions: usize,
        clocks: Clocks,
    ) -> Result<Self, String> {
        let mut all = Self::empty(partitions);
        all.sessions.iter_mut().for_each(|session| session.clocks = clocks);
        let messages = RecoveredMessages::decode(std::mem::take(&mut recovered.messages), clocks)?;
        let retained = recovered.retained.iter();
        all.routes.retained =
            retained.filter_map(|(_, message)| messages.get(*message).cloned()).collect();
        all.routes.next_message = recovered.next_message.0.max(1);
        all.routes.next_delivery = 1;
        all.next_session = recovered.next_session.0.max(1);
        // If a client has several sessions, the one with the highest ID is current, and the others have ended.
        let mut last = HashMap::new();
        for (number, session) in &recovered.sessions {
            last.insert(session.client.as_str(), *number);
        }
        for (number, stored) in &recovered.sessions {
            let unknown = |what: &str| {
                format!("the session of client {:?}: {what} has an unknown format", stored.client)
            };
            let extras = Extras::read(&stored.will).ok_or_else(|| unknown("its will"))?;
            let partition = partition_of(&stored.client, partitions);
            let place = &mut all.sessions[partition];
            // A session that was still arriving belongs to another node.
            let is_arriving = matches!(extras.moving, Moving::Arriving { .. });
            if is_arriving || last[stored.client.as_str()] != *number {
                place.ended.push(number.0);
                let wills =
                    extras.pending_wills.into_iter().chain(extras.will.map(|will| will.message));
                let client: Arc<str> = stored.client.as_str().into();
                place.pending_wills.extend(wills.map(|will| (number.0, client.clone(), will)));
                continue;
            }
            let mut session = session(*number, stored, &messages).map_err(|what| unknown(&what))?;
            (session.will, session.user) = (extras.will, extras.user);
            session.adoptions = extras.adoptions;
            (session.moves, session.moving) = (extras.moves, extras.moving);
            session.pending_wills = extras.pending_wills;
            let highest = stored.queue.last_key_value().map_or(0, |(delivery, _)| delivery.0);
            all.routes.next_delivery = all.routes.next_delivery.max(highest + 1);
            let key = ClientKey {
                partition: partition as u16,
                slot: place.sessions.len() as u32,
                generation: 0,
            };
            let requests = requests_of(stored).map_err(|what| unknown(&what))?;
            let sized = |request: &SubscriptionRequest| {
                (request.key.clone(), size(&request.key, request.content.as_ref()))
            };
            session.keys = requests.iter().map(sized).collect();
            if !requests.is_empty() || is_of_node(&session.client_id) {
                let adoptions = session.adoptions.clone();
                let (user, client) = (session.user.clone(), stored.client.as_str().into());
                let identity = Identity { user, client };
                let has_messages = session.deliveries() > 0;
                let client =
                    Subscriber { key, durable_id: number.0, identity, adoptions, has_messages };
                all.routes.clients.push((client, requests));
            }
            place.sessions.push(session);
        }
        Ok(all)
    }
}

/// A session, without its will and subscriptions.
fn session(
    SessionId(number): SessionId,
    stored: &phalanx_store::Session,
    messages: &RecoveredMessages,
) -> Result<RecoveredSession, String> {
    let mut session = RecoveredSession::new(stored.client.as_str().into(), number);
    (session.expiry, session.left) = (stored.expiry, stored.left);
    let packet_id = |packet| PacketId::new(packet).ok_or("a packet identifier");
    for packet in &stored.incoming {
        session.received.push(packet_id(*packet)?);
    }
    for (delivery, own) in &stored.queue {
        let how = decode_how(own).ok_or("a message's delivery")?;
        let message = || messages.get(own.message).cloned().ok_or("a queued message");
        let (packet, message) = match own.phase {
            Phase::Queued => {
                session.queue.push_back(Queued { message: message()?, how, number: delivery.0 });
                continue;
            }
            Phase::Sent(packet) => (packet, Some((message()?, how))),
            Phase::Received(packet) => (packet, None),
        };
        let sequence = session.inflight.len() as u64;
        let own = Inflight { message, sequence, number: delivery.0 };
        session.inflight.push((packet_id(packet)?, own));
    }
    Ok(session)
}

/// The subscriptions of a session.
fn requests_of(stored: &phalanx_store::Session) -> Result<Vec<SubscriptionRequest>, String> {
    let mut all = Vec::with_capacity(stored.subscriptions.len());
    for (key, own) in &stored.subscriptions {
        let what = |error: String| format!("the subscription {key:?} ({error})");
        let parsed = match parse::parse_key(key) {
            Ok(parsed) => parsed,
            // An earlier version accepted this subscription and interpreted it differently.
            Err(error) => {
                let client = &stored.client;
                report(format_args!("client {client:?} lost its subscription {key:?}: {error}"));
                continue;
            }
        };
        let options = SubscribeOptions::from_byte(own.options);
        let options = options.map_err(|error| what(error.message().to_owned()))?;
        let identifier = NonZero::new(own.identifier);
        let ParsedSubscription { key, content } = parsed;
        all.push(SubscriptionRequest {
            key,
            content,
            options,
            identifier,
            covered: Covered::UNKNOWN,
            only_at_most_once: false,
        });
    }
    Ok(all)
}

fn decode_how(own: &Delivery) -> Option<How> {
    let (qos, retain) = of_flags(own.options)?;
    let mut how = How { qos, retain, ..How::default() };
    let (identifiers, rest) = own.properties.as_chunks::<4>();
    for identifier in identifiers {
        how.identifiers.add(NonZero::new(u32::from_le_bytes(*identifier)));
    }
    rest.is_empty().then_some(how)
}
