//! Messages of a client: gathered from all that has come, routed together, answered together.

use std::sync::Arc;

use phalanx::sleep;
use phalanx::time::now;
use phalanx_mqtt::{
    Ack, Delivery, Packet, PacketId, Properties, Property, PropertyBuffer, Publish, Reason, Version,
};

use crate::access::{Identity, Policy};
use crate::connection::{Connection, End};
use crate::drops::{DropReason, Drops};
use crate::message::{self, Message};
use crate::message_pool;
use crate::routing::{Answer, Item, Publication};
use crate::session::RETRY_DELAY;
use crate::session::key::ClientKey;
use crate::session::qos2::Qos2InFlight;
use crate::trie::is_shallow;

/// So many messages at most, or bytes of them, are routed before more are read: as many as come to so many deliveries,
/// by what the last have come to, and few at first.
const MAX_BATCH: usize = 1024;
const INITIAL_BATCH: usize = 16;
const MAX_BATCH_DELIVERIES: usize = 65_536;
const MAX_BATCH_BYTES: usize = 1 << 20;
/// Memory for so many is kept while there are none.
const IDLE_BATCH_CAPACITY: usize = 64;

/// What a client publishes on one connection.
pub(super) struct Publishing {
    /// Topics by their aliases, less one, as far as there were any; and the highest that there may be.
    aliases: Vec<Option<Box<str>>>,
    most_aliases: usize,
    messages: Vec<Arc<Message>>,
    deliveries: Vec<Delivery>,
    /// Memory for what is answered.
    reasons: Vec<Reason>,
    /// The places among `deliveries` of those that are not passed on, and why.
    refused: Vec<(usize, Reason)>,
    bytes: usize,
    /// How many are routed at once.
    most: usize,
    /// What each of the last has come to.
    each: usize,
    /// Whether the client's session was to outlive its connection when that began.
    pub(super) persistent: bool,
    /// Its session, and the number that this is kept by; 0 if it is not.
    session: (ClientKey, u64),
}

impl Publishing {
    pub(super) fn new(most_aliases: u16, persistent: bool, session: (ClientKey, u64)) -> Self {
        Self {
            aliases: Vec::new(),
            most_aliases: most_aliases.into(),
            messages: Vec::new(),
            deliveries: Vec::new(),
            reasons: Vec::new(),
            refused: Vec::new(),
            bytes: 0,
            most: INITIAL_BATCH,
            each: 1,
            persistent,
            session,
        }
    }

    /// Adds a message to those that are gathered.
    pub(super) fn add(
        &mut self,
        publish: &Publish<'_>,
        (policy, identity, drops): (&Policy, &Identity, &Drops),
    ) -> Result<(), End> {
        let mut alias = None;
        // The users' own are not looked through: they are passed on.
        let others = match publish.properties.are_user() {
            true => Properties::NONE,
            false => publish.properties,
        };
        for property in others {
            match property {
                Property::TopicAlias(number) => alias = Some(usize::from(number)),
                Property::SubscriptionIdentifier(_) => {
                    let what = "a client's message has a subscription identifier";
                    return Err(End::Because(Reason::PROTOCOL_ERROR, what));
                }
                _ => (),
            }
        }
        let topic = match alias {
            None if publish.topic.is_empty() => {
                let what = "a message has neither a topic nor an alias of one";
                return Err(End::Because(Reason::PROTOCOL_ERROR, what));
            }
            None => publish.topic,
            Some(alias) => {
                if !(1..=self.most_aliases).contains(&alias) {
                    let what = "an alias of a topic is 0, or higher than this server takes";
                    return Err(End::Because(Reason::TOPIC_ALIAS_INVALID, what));
                }
                if self.aliases.len() < alias {
                    self.aliases.resize(alias, None);
                }
                let known = &mut self.aliases[alias - 1];
                if !publish.topic.is_empty() {
                    *known = Some(publish.topic.into());
                }
                match known {
                    Some(topic) => topic,
                    None => {
                        let what = "an alias stands for no topic yet";
                        return Err(End::Because(Reason::PROTOCOL_ERROR, what));
                    }
                }
            }
        };
        if !is_shallow(topic) {
            let what = "the topic has more than 200 levels";
            return Err(End::Because(Reason::TOPIC_NAME_INVALID, what));
        }
        let drop = |cause, reason| {
            let example = || format!("{topic:?} from client {:?}", identity.client);
            drops.add(cause, 1, example);
            Some(reason)
        };
        let refused = match message::check(publish.topic, publish.properties, publish.payload) {
            Err((reason @ Reason::PAYLOAD_FORMAT_INVALID, _)) => {
                drop(DropReason::PayloadFormat, reason)
            }
            Err((reason, what)) => return Err(End::Because(reason, what)),
            Ok(()) if !policy.may_publish(identity, topic) => {
                drop(DropReason::NotAuthorized, Reason::NOT_AUTHORIZED)
            }
            Ok(()) => None,
        };
        if let Some(reason) = refused {
            if publish.delivery.id().is_some() {
                self.refused.push((self.deliveries.len(), reason));
                self.deliveries.push(publish.delivery);
            }
            return Ok(());
        }
        let message = message_pool::get(publish, topic, self.session, now());
        self.bytes += message.size();
        self.messages.push(message);
        self.deliveries.push(publish.delivery);
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.deliveries.is_empty()
    }

    /// The last messages have come to so many deliveries each.
    fn adapt_batch(&mut self, each: usize) {
        self.each = each;
        let fits = MAX_BATCH_DELIVERIES / each.max(1);
        self.most = fits.clamp(1, (self.most * 2).min(MAX_BATCH));
    }

    pub(super) fn is_full(&self) -> bool {
        self.deliveries.len() >= self.most || self.bytes >= MAX_BATCH_BYTES
    }
}

impl Connection {
    /// Routes what was gathered, and answers it.
    pub(super) async fn publish(&mut self) -> Result<(), End> {
        self.publishing.bytes = 0;
        let mut messages = std::mem::take(&mut self.publishing.messages);
        let mut deliveries = std::mem::take(&mut self.publishing.deliveries);
        let refused = std::mem::take(&mut self.publishing.refused);
        let refusal = |n: usize| {
            let at = refused.binary_search_by_key(&n, |(at, _)| *at).ok()?;
            Some(refused[at].1)
        };
        let is_allowed = |n: &usize| refused.is_empty() || refusal(*n).is_none();
        self.context.counters.received.add(deliveries.len() as u64);
        if let Some(rate_limit) = &mut self.rate_limit {
            rate_limit.published(deliveries.len(), now());
        }
        let (begun, together) = match deliveries.iter().any(|own| exactly_once(own).is_some()) {
            // Boxed, as what few need is not to be held by all.
            true => Box::pin(self.begin(&deliveries)).await?,
            false => (None, None),
        };
        if let Some(begun) = &begun {
            let mut all = (0..begun.len()).filter(is_allowed).map(|n| begun[n]);
            messages.retain(|_| all.next().unwrap_or(true));
            if begun.contains(&false) {
                // Those are answered as if they were new: so what was noted of them is to be on the disk.
                if let Err(end) = Box::pin(self.wait_for_all()).await {
                    refuse(&together, &deliveries, begun);
                    return Err(end);
                }
            }
        }
        if let (true, Some(together)) = (messages.is_empty(), &together) {
            together.set_routed();
        }
        let reasons = std::mem::take(&mut self.publishing.reasons);
        let mut own =
            Publication { messages, begun: together.clone(), reasons, ..Publication::default() };
        let (mut answered, mut done) = (0, Ok(()));
        loop {
            if !own.messages.is_empty() {
                own = match self.context.stages.routing.call(Item::Publish(own)).await {
                    Ok(Answer::Published(own)) => own,
                    // Nobody knows where it has arrived: the client sends it again, and what has arrived then
                    // arrives twice, which is better than not at all.
                    _ => {
                        let (left, client) = (deliveries.len() - answered, &self.identity.client);
                        let example = || format!("from client {client:?}");
                        self.context.counters.drops.add(DropReason::Busy, left, example);
                        self.abandon_rest(&together, &deliveries, (&begun, answered)).await;
                        return Err(Reason::SERVER_BUSY.into());
                    }
                };
            }
            let left = own.messages.split_off(own.reasons.len());
            // It has arrived, or will when the disk takes it; or a crash comes before. So it is not said to be refused
            // either: the client comes back and sends it again, and what is of QoS 2 is known then.
            let is_late = own.is_late && !deliveries.iter().all(is_at_most_once);
            if !own.messages.is_empty() {
                self.publishing.adapt_batch(own.each);
            }
            message_pool::recycle(&mut own.messages);
            let mut reasons = own.reasons.drain(..);
            for (n, delivery) in deliveries.iter().enumerate().skip(answered) {
                let is_new = begun.as_ref().is_none_or(|begun| begun[n]);
                let reason = match is_allowed(&n) {
                    true if is_new => match reasons.next() {
                        Some(reason) => reason,
                        // There was no room for it yet, and it is answered behind those before.
                        None => break,
                    },
                    // In 3.1.1 it is dropped, and taken for delivered: there is no word for it.
                    false if self.version == Version::V5 => refusal(n).unwrap_or(Reason::SUCCESS),
                    _ => Reason::SUCCESS,
                };
                // All of them, so that none is taken for begun that was refused.
                if !is_late {
                    done = done.and(self.acknowledge(*delivery, reason).await);
                }
                answered = n + 1;
            }
            drop(reasons);
            if is_late {
                done = Err(TAKES_NOTHING);
            }
            if left.is_empty() {
                break;
            }
            if done.is_err() {
                self.abandon_rest(&together, &deliveries, (&begun, answered)).await;
                return done;
            }
            let (messages, each) = (left.len(), self.publishing.each);
            own.messages = left;
            // Boxed, as what is seldom is not to be held by all.
            own.permit = Box::pin(self.context.delivery_limiter.acquire(messages, each)).await;
        }
        deliveries.clear();
        self.publishing.messages = without_excess(own.messages);
        self.publishing.deliveries = without_excess(deliveries);
        self.publishing.reasons = without_excess(own.reasons);
        done
    }

    /// None of the messages has arrived behind those that were `answered`: those of QoS 2 are new when they come again.
    #[cold]
    async fn abandon_rest(
        &self,
        together: &Option<Arc<Qos2InFlight>>,
        deliveries: &[Delivery],
        (begun, answered): (&Option<Vec<bool>>, usize),
    ) {
        let new = begun.as_ref().map_or(&[][..], |begun| &begun[answered..]);
        // It may be back already, on a connection that is not asked to give up anything.
        let refused = refuse(together, &deliveries[answered..], new);
        if let Some(together) = together {
            // Those before them have come.
            together.set_routed();
        }
        self.abandon(refused).await;
    }

    /// Messages of QoS 2 have not arrived: when they come again, they are new.
    async fn abandon(&self, ids: Vec<PacketId>) {
        if !ids.is_empty() {
            let _ = self.context.stages.sessions.abandon(self.key, self.connection_id, ids).await;
        }
    }

    /// Waits until all that was noted is on the disk.
    async fn wait_for_all(&self) -> Result<(), End> {
        let wal = &self.context.wal;
        wal.durable_with_progress(wal.latest()).await.map_err(|_| TAKES_NOTHING)
    }

    /// Notes which messages of QoS 2 were begun, of which there are some. For each message whether it is to be routed; and
    /// what says when it was.
    async fn begin(&self, deliveries: &[Delivery]) -> Result<Qos2Begin, End> {
        let ids: Vec<_> = deliveries.iter().filter_map(exactly_once).collect();
        let mut tries = 0;
        let (begun, together) = loop {
            let begun =
                self.context.stages.sessions.begin(self.key, self.connection_id, ids.clone()).await;
            match begun.map_err(|_| Reason::SERVER_BUSY)? {
                Ok(begun) => break begun,
                // The connection before has begun it, and does not know yet what becomes of it.
                Err(Reason::SERVER_BUSY) if tries < 1000 => sleep(RETRY_DELAY).await,
                Err(reason) => return Err(reason.into()),
            }
            tries += 1;
        };
        let mut begun = begun.into_iter();
        let each = deliveries.iter().map(|delivery| match delivery {
            Delivery::ExactlyOnce(_) => begun.next().unwrap_or(true),
            _ => true,
        });
        Ok((Some(each.collect()), together))
    }

    async fn acknowledge(&self, delivery: Delivery, reason: Reason) -> Result<(), End> {
        let Some(id) = delivery.id() else { return Ok(()) };
        if reason.is_failure() {
            self.abandon(exactly_once(&delivery).into_iter().collect()).await;
        }
        if reason.is_failure() && self.version == Version::V3 {
            // Which has no word for it but the end.
            return Err(reason.into());
        }
        let mut buffer = PropertyBuffer::new();
        let what = match reason {
            Reason::NOT_AUTHORIZED => "this client may not publish to this topic",
            Reason::PAYLOAD_FORMAT_INVALID => "the payload is said to be text, and is not UTF-8",
            reason if reason.is_failure() => "the message is not kept: there is no room for it",
            _ => "",
        };
        let properties = self.reason(&mut buffer, what);
        let ack = Ack { id, reason, properties };
        match delivery {
            Delivery::ExactlyOnce(_) => self.outbox.push(&Packet::PubRec(ack)),
            _ => self.outbox.push(&Packet::PubAck(ack)),
        }
        Ok(())
    }
}

/// Memory for what is gathered next, if it is little.
fn without_excess<T>(memory: Vec<T>) -> Vec<T> {
    if memory.capacity() > IDLE_BATCH_CAPACITY { Vec::new() } else { memory }
}

/// Says that none of those messages of QoS 2 has arrived that are `new`. Their numbers.
fn refuse(
    together: &Option<Arc<Qos2InFlight>>,
    deliveries: &[Delivery],
    new: &[bool],
) -> Vec<PacketId> {
    let new = deliveries.iter().zip(new).filter(|(_, new)| **new);
    let ids: Vec<_> = new.filter_map(|(delivery, _)| exactly_once(delivery)).collect();
    if let Some(together) = together {
        together.refuse(ids.iter().copied());
    }
    ids
}

/// See [`Connection::begin`].
type Qos2Begin = (Option<Vec<bool>>, Option<Arc<Qos2InFlight>>);

/// Who waits for an acknowledgement cannot have one.
pub(super) const TAKES_NOTHING: End = End::Because(
    Reason::SERVER_UNAVAILABLE,
    "the disk takes nothing: what was not acknowledged may be lost",
);

fn is_at_most_once(delivery: &Delivery) -> bool {
    delivery.id().is_none()
}

/// The number of a message that is to arrive exactly once.
fn exactly_once(delivery: &Delivery) -> Option<PacketId> {
    match delivery {
        Delivery::ExactlyOnce(id) => Some(*id),
        _ => None,
    }
}
