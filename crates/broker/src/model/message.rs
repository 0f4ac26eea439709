//! A message in the broker, shared by all its deliveries.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use phalanx_mqtt::{
    Delivery, PacketId, Properties, Property, PropertyBuffer, Publish, QoS, Reason, Will,
    check_content,
};

use crate::model::client_key::ClientKey;
use crate::model::delivery::How;
use crate::model::handed::MARK_TOPIC;
use crate::model::moving::CUT_TOPIC;
use crate::model::stamp::Stamp;
use crate::model::subscriptions::trie::is_shallow;

/// Checks whether a message may be forwarded. A strict receiver closes its connection when it gets an invalid message,
/// and this broker does so when a receiver publishes to an invalid response topic. After reconnecting, the receiver would
/// get the message again, and the connection would end again.
///
/// # Errors
/// The reason code and a description.
pub(crate) fn check(
    topic: &str,
    properties: Properties<'_>,
    payload: &[u8],
) -> Result<(), (Reason, &'static str)> {
    check_content(topic, properties, payload).map_err(|error| (error.reason, error.message()))?;
    let is_deep = |property| matches!(property, Property::ResponseTopic(own) if !is_shallow(own));
    if !properties.are_user() && properties.iter().any(is_deep) {
        return Err((Reason::TOPIC_NAME_INVALID, "the response topic has more than 200 levels"));
    }
    Ok(())
}

/// A message.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) topic: String,
    pub(crate) payload: Vec<u8>,
    /// The forwarded properties: all except the expiry and those that concern only one connection.
    properties: PropertyBuffer,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    /// Whether an earlier version stored this message and it fails today's [check](check). Such a message is not sent.
    pub(crate) is_invalid: bool,
    /// Whether an operator published it with the admin API.
    is_operators: bool,
    /// Whether the sender is another broker, which keeps the message and retransmits it until it is acknowledged.
    pub(crate) is_kept_by_sender: bool,
    /// The time of expiry, on the runtime's clock.
    expires: Option<Duration>,
    /// The publisher; `None` for the broker's own messages and wills.
    pub(crate) from: Option<ClientKey>,
    /// The client identifier of the publisher of a retained message or a will; `None` if unknown. Needed because No Local
    /// also applies to later subscriptions (MQTT-3.8.3-3), after a restart and in another session of the same client.
    pub(crate) publisher: Option<Arc<str>>,
    /// The origin of the message, which restricts its receivers.
    pub(crate) source: Source,
    /// For a QoS 2 message of a client: the ID of the client's session in the journal, 0 if not persistent, and the
    /// packet identifier.
    pub(crate) begun: Option<(u64, PacketId)>,
    /// The ID in the journal; 0 if not stored. Written by the router only.
    number: AtomicU64,
    /// The [stamp](Stamp) of a message to be retained in a cluster. Written by the router, unless another node has sent it.
    stamp: AtomicU64,
}

/// The origin of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A client of this node, or this node.
    Here,
    /// Another node, which sends it to every node that wants it. For the ordinary subscriptions of this node's clients.
    Node,
    /// Another node, which chose this node for the group with this number. For one member of the group here.
    Group(u32),
    /// Another node, which sends retained messages that this one may lack. They are retained, but not delivered.
    Retained,
    /// Another node, or this one, which hands it over after the adoption with this number. For the adopted sessions only.
    Handed(u32),
    /// The mark that ends the handover after the adoption with this number.
    Mark(u32),
    /// A cut: another node, or this one, divides its messages between the two copies of a moving session.
    Cut,
}

/// The stored fields of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredMessage<'a> {
    pub(crate) topic: &'a str,
    pub(crate) payload: &'a [u8],
    pub(crate) properties: Properties<'a>,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
}

impl Message {
    /// A message published at `now` to `topic`, resolved from its alias. `durable_id` is the ID of the
    /// client's session in the journal; 0 if not persistent.
    pub(crate) fn of(
        publish: &Publish<'_>,
        topic: &str,
        (from, durable_id): (ClientKey, u64),
        now: Duration,
    ) -> Self {
        let mut own = Self::plain(String::new(), Vec::new());
        own.fill(publish, topic, (from, durable_id), now);
        own
    }

    /// A QoS 0 message without properties and without a publisher.
    fn plain(topic: String, payload: Vec<u8>) -> Self {
        Self {
            topic,
            payload,
            properties: PropertyBuffer::new(),
            qos: QoS::AtMostOnce,
            retain: false,
            is_invalid: false,
            is_operators: false,
            is_kept_by_sender: false,
            expires: None,
            from: None,
            publisher: None,
            source: Source::Here,
            begun: None,
            number: AtomicU64::new(0),
            stamp: AtomicU64::new(0),
        }
    }

    /// Whether [`fill`](Self::fill) would waste little of the buffers' capacity.
    pub(crate) fn fits(&self, publish: &Publish<'_>, topic: &str) -> bool {
        let fits = |capacity: usize, needed: usize| capacity <= 2 * needed + SLACK;
        fits(self.topic.capacity(), topic.len())
            && fits(self.payload.capacity(), publish.payload.len())
            && fits(self.properties.capacity(), publish.properties.bytes())
    }

    /// Overwrites this message with another one, as [`of`](Self::of), and reuses its buffers.
    pub(crate) fn fill(
        &mut self,
        publish: &Publish<'_>,
        topic: &str,
        (from, durable_id): (ClientKey, u64),
        now: Duration,
    ) {
        let Self { topic: own, payload, properties, .. } = self;
        own.clear();
        own.reserve_exact(topic.len());
        own.push_str(topic);
        payload.clear();
        payload.reserve_exact(publish.payload.len());
        payload.extend_from_slice(publish.payload);
        self.expires = pass_on(publish.properties, now, properties);
        self.qos = publish.delivery.qos();
        self.retain = publish.retain;
        self.from = Some(from);
        self.publisher = None;
        self.source = Source::Here;
        self.is_kept_by_sender = false;
        self.begun = match publish.delivery {
            Delivery::ExactlyOnce(id) => Some((durable_id, id)),
            _ => None,
        };
        *self.number.get_mut() = 0;
        *self.stamp.get_mut() = 0;
    }

    /// A message from the journal.
    pub(crate) fn from_stored(
        number: u64,
        stored: &StoredMessage<'_>,
        expires: Option<Duration>,
    ) -> Self {
        let StoredMessage { topic, payload, properties, qos, retain } = *stored;
        let buffers = (topic.into(), payload.into());
        Self::from_buffers(number, buffers, (properties, qos, retain), expires)
    }

    /// Like [`from_stored`](Self::from_stored), but takes over the buffers of the topic and the payload.
    pub(crate) fn from_buffers(
        number: u64,
        (topic, payload): (String, Vec<u8>),
        (stored, qos, retain): (Properties<'_>, QoS, bool),
        expires: Option<Duration>,
    ) -> Self {
        let mut properties = PropertyBuffer::new();
        properties.append(stored);
        Self {
            is_invalid: check(&topic, stored, &payload).is_err(),
            properties,
            qos,
            retain,
            expires,
            number: AtomicU64::new(number),
            ..Self::plain(topic, payload)
        }
    }

    /// The fields to store, except for the expiry.
    pub(crate) fn stored(&self) -> StoredMessage<'_> {
        StoredMessage {
            topic: &self.topic,
            payload: &self.payload,
            properties: self.properties.get(),
            qos: self.qos,
            retain: self.retain,
        }
    }

    /// Whether the message is refused while the journal is full: its publisher is a client or an operator, and expects it
    /// to be stored. An operator can always delete a retained message.
    pub(crate) fn wants_keeping(&self) -> bool {
        let deletes = self.is_operators && self.retain && self.payload.is_empty();
        let is_acknowledged = self.from.is_some() || self.is_operators;
        is_acknowledged && !deletes && (self.retain || self.qos != QoS::AtMostOnce)
    }

    /// Whether its publisher is acknowledged only when the message is on disk. QoS 0 has no such guarantee. However, with
    /// a long backlog (`much`) the publishers of retained messages wait, too, and operators always do.
    pub(crate) fn is_awaited(&self, much: bool) -> bool {
        self.qos != QoS::AtMostOnce || (much || self.is_operators) && self.retain
    }

    /// The time of expiry, by the runtime's clock.
    pub(crate) fn expires(&self) -> Option<Duration> {
        self.expires
    }

    /// The ID in the journal; 0 if not stored.
    pub(crate) fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    pub(crate) fn set_number(&self, number: u64) {
        self.number.store(number, Ordering::Relaxed);
    }

    /// Its stamp, if it is or was to be retained in a cluster.
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp::of_number(self.stamp.load(Ordering::Relaxed))
    }

    pub(crate) fn set_stamp(&self, stamp: Stamp) {
        self.stamp.store(stamp.number(), Ordering::Relaxed);
    }

    /// The deletion that takes the place of this message when it has expired or is itself empty, until it is forgotten.
    pub(crate) fn deletion(&self, until: Duration) -> Self {
        let stamp = AtomicU64::new(self.stamp().number());
        let plain = Self::plain(self.topic.clone(), Vec::new());
        Self { retain: true, expires: Some(until), stamp, ..plain }
    }

    /// The message of a will, as if published at time 0. [`postponed`](Self::postponed) adds the time of publication.
    pub(crate) fn of_will(will: &Will<'_>) -> Self {
        let mut properties = PropertyBuffer::new();
        let expires = pass_on(will.properties, Duration::ZERO, &mut properties);
        Self {
            properties,
            qos: will.qos,
            retain: will.retain,
            expires,
            ..Self::plain(will.topic.into(), will.payload.into())
        }
    }

    /// The message of an operator.
    pub(crate) fn of_operator(topic: &str, payload: &[u8], qos: QoS, retain: bool) -> Self {
        let buffers = (topic.into(), payload.into());
        let own = Self::from_buffers(0, buffers, (Properties::NONE, qos, retain), None);
        Self { is_operators: true, ..own }
    }

    /// A copy of a message that this node moves from a queue to its own sessions. `publisher` is the lost node that had
    /// queued it, if it was not this node. The copy cannot be refused, because the publisher already has an
    /// acknowledgement.
    pub(crate) fn moved(&self, source: Source, how: &How, publisher: Option<Arc<str>>) -> Self {
        let (again, qos, retain) = (self.again(), how.qos, how.retain);
        Self { source, qos, retain, publisher: publisher.or(again.publisher.clone()), ..again }
    }

    /// The mark that ends a handover, for another node.
    pub(crate) fn mark() -> Self {
        Self { qos: QoS::AtLeastOnce, ..Self::plain(MARK_TOPIC.into(), Vec::new()) }
    }

    /// A cut with this payload.
    pub(crate) fn cut(payload: Vec<u8>) -> Self {
        let (qos, source) = (QoS::AtLeastOnce, Source::Cut);
        Self { qos, source, ..Self::plain(CUT_TOPIC.into(), payload) }
    }

    /// Whether it replaces the retained message of its topic. A handed-over message does not, because it was already
    /// retained when it came over a lane.
    pub(crate) fn is_to_be_retained(&self) -> bool {
        self.retain && !matches!(self.source, Source::Handed(_) | Source::Mark(_) | Source::Cut)
    }

    /// A message that the broker publishes below `$SYS`.
    pub(crate) fn system(topic: &str, payload: String) -> Self {
        Self::plain(topic.into(), payload.into_bytes())
    }

    /// The user properties.
    pub(crate) fn user(&self) -> impl Iterator<Item = (&str, &str)> {
        self.properties.get().user()
    }

    /// Length of all properties, in bytes.
    pub(crate) fn properties_bytes(&self) -> usize {
        self.properties.get().bytes()
    }

    /// Whether this message has the topic and QoS of `earlier`, both are from this node, and neither is to be retained.
    pub(crate) fn is_like(&self, earlier: &Self) -> bool {
        let is_plain = |message: &Self| message.source == Source::Here && !message.retain;
        self.topic == earlier.topic
            && self.qos == earlier.qos
            && is_plain(self)
            && is_plain(earlier)
    }

    /// Whether No Local excludes the same clients from this message and from `other`. The publisher of a will is known only
    /// by its client identifier.
    pub(crate) fn has_publisher_of(&self, other: &Self) -> bool {
        self.from == other.from && self.publisher == other.publisher
    }

    /// Whether it has expired at `now`.
    pub(crate) fn has_expired(&self, now: Duration) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// A copy that has no ID in the journal yet.
    pub(crate) fn again(&self) -> Self {
        let (publisher, stamp) = (self.publisher.clone(), AtomicU64::new(self.stamp().number()));
        Self { publisher, stamp, ..Self::from_stored(0, &self.stored(), self.expires) }
    }

    /// This message, published `later`.
    pub(crate) fn postponed(self, later: Duration) -> Self {
        Self { expires: self.expires.map(|expires| expires.saturating_add(later)), ..self }
    }

    /// Writes the properties for a subscriber into `buffer`.
    pub(crate) fn write_properties(
        &self,
        buffer: &mut PropertyBuffer,
        identifiers: &[u32],
        now: Duration,
    ) {
        buffer.clear();
        buffer.append(self.properties.get());
        if let Some(expires) = self.expires {
            let left = expires.saturating_sub(now).as_secs_f64().ceil() as u32;
            let _ = buffer.push(Property::MessageExpiry(left));
        }
        for &identifier in identifiers {
            // Cannot fail: the identifiers came from a client's property.
            let _ = buffer.push(Property::SubscriptionIdentifier(identifier));
        }
    }

    /// The stored properties, if a subscriber receives them unchanged.
    pub(crate) fn properties(&self, identifiers: &[u32]) -> Option<Properties<'_>> {
        (identifiers.is_empty() && self.expires.is_none()).then(|| self.properties.get())
    }

    /// Memory use in bytes, for limits. The publisher's identifier counts, because a retained message outlives its
    /// publisher's session.
    pub(crate) fn size(&self) -> usize {
        let publisher = self.publisher.as_ref().map_or(0, |publisher| publisher.len());
        size_of::<Self>() + self.memory() + publisher
    }

    /// Size of the buffers, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.topic.capacity() + self.payload.capacity() + self.properties.capacity()
    }
}

/// Unused capacity that is always acceptable, in bytes.
const SLACK: usize = 64;

/// Fills `buffer` with the properties to forward. Returns the expiry of a message published at `now`.
fn pass_on(
    properties: Properties<'_>,
    now: Duration,
    buffer: &mut PropertyBuffer,
) -> Option<Duration> {
    buffer.clear();
    if properties.are_user() {
        buffer.append(properties);
        return None;
    }
    let own = |property: &Property<'_>| {
        matches!(
            property,
            Property::TopicAlias(_)
                | Property::MessageExpiry(_)
                | Property::WillDelay(_)
                // Only other nodes of the cluster send it.
                | Property::SubscriptionIdentifier(_)
        )
    };
    if !properties.iter().any(|property| own(&property)) {
        buffer.append(properties);
        return None;
    }
    let mut expires = None;
    for property in properties {
        match property {
            Property::MessageExpiry(seconds) => {
                expires = Some(now.saturating_add(Duration::from_secs(seconds.into())));
            }
            // Cannot fail: a decoded property can be encoded.
            property if !own(&property) => drop(buffer.push(property)),
            _ => (),
        }
    }
    expires
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_can_delete_on_a_full_disk() {
        let wants = |payload: &[u8], qos, retain| {
            Message::of_operator("t", payload, qos, retain).wants_keeping()
        };
        for qos in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce] {
            assert!(!wants(b"", qos, true), "{qos:?}");
            assert!(wants(b"x", qos, true), "{qos:?}");
            for payload in [&b""[..], b"x"] {
                assert_eq!(wants(payload, qos, false), qos != QoS::AtMostOnce, "{qos:?}");
            }
        }
    }
}
