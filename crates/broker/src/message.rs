//! A message as the broker has it: once, however many it is for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use phalanx_mqtt::{
    Delivery, PacketId, Properties, Property, PropertyBuffer, Publish, QoS, Reason, Will,
    check_content,
};

use crate::session::key::ClientKey;
use crate::trie::is_shallow;

/// Whether a message may be passed on: a strict receiver would close its connection for what is refused here, and this
/// broker that of a receiver that publishes to the response topic. Both would be sent the message again, and so on.
///
/// # Errors
/// The reason, and what is wrong.
pub(crate) fn check(
    topic: &str,
    properties: Properties<'_>,
    payload: &[u8],
) -> Result<(), (Reason, &'static str)> {
    check_content(topic, properties, payload).map_err(|error| (error.reason, error.what()))?;
    let is_deep = |property| matches!(property, Property::ResponseTopic(own) if !is_shallow(own));
    if !properties.are_user() && properties.iter().any(is_deep) {
        return Err((Reason::TOPIC_NAME_INVALID, "the response topic has more than 200 levels"));
    }
    Ok(())
}

/// A message on its way through the broker.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) topic: String,
    pub(crate) payload: Vec<u8>,
    /// What is passed on as it came: all but what concerns one connection or changes with time.
    properties: PropertyBuffer,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    /// Whether a version before this one has taken it in and kept it, that did not [check](check) it: then it is sent to
    /// nobody.
    pub(crate) is_invalid: bool,
    /// By the runtime's clock.
    expires: Option<Duration>,
    /// Who has published it; none where that was the broker.
    pub(crate) from: Option<ClientKey>,
    /// If it is of QoS 2, and from a client: the number that its session is kept by, 0 if it is not; and the one that
    /// it came with.
    pub(crate) begun: Option<(u64, PacketId)>,
    /// The number that it is kept by; 0 while it is not. Written by the router alone.
    number: AtomicU64,
}

/// What is kept of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredMessage<'a> {
    pub(crate) topic: &'a str,
    pub(crate) payload: &'a [u8],
    pub(crate) properties: Properties<'a>,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
}

impl Message {
    /// What a client has published at `now` to `topic`, which an alias may have stood for. `kept` is the number that
    /// its session is kept by; 0 if it is not.
    pub(crate) fn of(
        publish: &Publish<'_>,
        topic: &str,
        (from, durable_id): (ClientKey, u64),
        now: Duration,
    ) -> Self {
        let mut own = Self {
            topic: String::new(),
            payload: Vec::new(),
            properties: PropertyBuffer::new(),
            qos: QoS::AtMostOnce,
            retain: false,
            is_invalid: false,
            expires: None,
            from: None,
            begun: None,
            number: AtomicU64::new(0),
        };
        own.fill(publish, topic, (from, durable_id), now);
        own
    }

    /// Whether [`fill`](Self::fill) would leave little of the memory unused.
    pub(crate) fn fits(&self, publish: &Publish<'_>, topic: &str) -> bool {
        let fits = |capacity: usize, needed: usize| capacity <= 2 * needed + SLACK;
        fits(self.topic.capacity(), topic.len())
            && fits(self.payload.capacity(), publish.payload.len())
            && fits(self.properties.capacity(), publish.properties.bytes())
    }

    /// Is what a client has published, as [`of`](Self::of) has it, in the memory of what it was before.
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
        self.begun = match publish.delivery {
            Delivery::ExactlyOnce(id) => Some((durable_id, id)),
            _ => None,
        };
        *self.number.get_mut() = 0;
    }

    /// What was kept by this number.
    pub(crate) fn from_stored(
        number: u64,
        stored: &StoredMessage<'_>,
        expires: Option<Duration>,
    ) -> Self {
        let mut properties = PropertyBuffer::new();
        properties.append(stored.properties);
        Self {
            topic: stored.topic.into(),
            payload: stored.payload.into(),
            properties,
            qos: stored.qos,
            retain: stored.retain,
            is_invalid: check(stored.topic, stored.properties, stored.payload).is_err(),
            expires,
            from: None,
            begun: None,
            number: AtomicU64::new(number),
        }
    }

    /// What there is to keep of it, but for when it expires.
    pub(crate) fn stored(&self) -> StoredMessage<'_> {
        StoredMessage {
            topic: &self.topic,
            payload: &self.payload,
            properties: self.properties.get(),
            qos: self.qos,
            retain: self.retain,
        }
    }

    /// Whether a client wants it kept.
    pub(crate) fn wants_keeping(&self) -> bool {
        self.from.is_some() && (self.retain || self.qos != QoS::AtMostOnce)
    }

    /// Whether its publisher is answered only when what is kept of it is on the disk: of QoS 0 nothing is promised. But where
    /// `much` waits for the disk, who has more kept waits with it.
    pub(crate) fn is_awaited(&self, much: bool) -> bool {
        self.qos != QoS::AtMostOnce || much && self.retain
    }

    /// When it expires, by the runtime's clock.
    pub(crate) fn expires(&self) -> Option<Duration> {
        self.expires
    }

    /// The number that it is kept by; 0 while it is not.
    pub(crate) fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    pub(crate) fn set_number(&self, number: u64) {
        self.number.store(number, Ordering::Relaxed);
    }

    /// What a will says, as if it were published when the clock began: it is [postponed](Self::postponed) until
    /// it is.
    pub(crate) fn of_will(will: &Will<'_>) -> Self {
        let mut properties = PropertyBuffer::new();
        let expires = pass_on(will.properties, Duration::ZERO, &mut properties);
        Self {
            topic: will.topic.into(),
            payload: will.payload.into(),
            properties,
            qos: will.qos,
            retain: will.retain,
            is_invalid: false,
            expires,
            from: None,
            begun: None,
            number: AtomicU64::new(0),
        }
    }

    /// What the broker says of itself.
    pub(crate) fn system(topic: &str, payload: String) -> Self {
        Self {
            topic: topic.into(),
            payload: payload.into_bytes(),
            properties: PropertyBuffer::new(),
            qos: QoS::AtMostOnce,
            retain: false,
            is_invalid: false,
            expires: None,
            from: None,
            begun: None,
            number: AtomicU64::new(0),
        }
    }

    /// The users' own properties.
    pub(crate) fn user(&self) -> impl Iterator<Item = (&str, &str)> {
        self.properties.get().user()
    }

    /// How many bytes all its properties have.
    pub(crate) fn properties_bytes(&self) -> usize {
        self.properties.get().bytes()
    }

    /// Whether it is worth nothing any more at `now`.
    pub(crate) fn has_expired(&self, now: Duration) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// The same, to be kept while this is on its way.
    pub(crate) fn again(&self) -> Self {
        Self::from_stored(0, &self.stored(), self.expires)
    }

    /// The same message, published `later`.
    pub(crate) fn postponed(self, later: Duration) -> Self {
        Self { expires: self.expires.map(|expires| expires.saturating_add(later)), ..self }
    }

    /// Writes the properties that a subscriber gets into `buffer`.
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
            // They came in a property of a client's, so they fit into one.
            let _ = buffer.push(Property::SubscriptionIdentifier(identifier));
        }
    }

    /// Those properties where nothing is to be added to them.
    pub(crate) fn properties(&self, identifiers: &[u32]) -> Option<Properties<'_>> {
        (identifiers.is_empty() && self.expires.is_none()).then(|| self.properties.get())
    }

    /// What it costs to keep it, in bytes: of memory, so that bounds are bounds.
    pub(crate) fn size(&self) -> usize {
        size_of::<Self>() + self.memory()
    }

    /// Bytes of memory that it has beside itself.
    pub(crate) fn memory(&self) -> usize {
        self.topic.capacity() + self.payload.capacity() + self.properties.capacity()
    }
}

/// So many bytes of memory may be unused beyond as many as are used.
const SLACK: usize = 64;

/// Has `buffer` hold the properties that are passed on, and nothing else. When the message expires that was published at
/// `now`.
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
            Property::TopicAlias(_) | Property::MessageExpiry(_) | Property::WillDelay(_)
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
            // What was read can be written.
            property if !own(&property) => drop(buffer.push(property)),
            _ => (),
        }
    }
    expires
}
