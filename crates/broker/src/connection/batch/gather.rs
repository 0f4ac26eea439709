//! Gathers the messages of one read, to route them together.

use std::sync::Arc;
use std::time::Duration;

use phalanx::time::now;
use phalanx_mqtt::{Properties, Property, Publish, Reason};

use crate::access::permissions::Verdict;
use crate::access::{Identity, Policy};
use crate::connection::batch::{Batch, MAX_BATCH};
use crate::connection::end::End;
use crate::events::Origin;
use crate::events::drops::{DropReason, Drops};
use crate::events::traces::TracedPublish;
use crate::model::client_key::ClientKey;
use crate::model::handed::source_of;
use crate::model::message::{self, Source};
use crate::model::message_pool;
use crate::model::stamp::{STAMP_IDENTIFIERS, Stamp};
use crate::model::subscriptions::group_id::qos_of_sync;
use crate::model::subscriptions::trie::is_shallow;
use crate::model::topic_aliases::may_have_alias;
use crate::requests::JOURNAL_FULL;

/// Initial number of messages routed together. It adapts to the deliveries per message of the last batch.
const INITIAL_BATCH: usize = 16;
/// Number of consecutive batches for the sessions of one processor after which a publisher may move there.
const MIN_BATCHES: u8 = 8;
/// Limits of one routed batch: expected deliveries, bytes.
const MAX_BATCH_DELIVERIES: usize = 65_536;
const MAX_BATCH_BYTES: usize = 1 << 20;

/// The publishing state of a connection.
pub(in crate::connection) struct Publishing {
    /// Defined topics, indexed by alias minus one; their size in bytes; and the maximum alias.
    aliases: Vec<Option<Box<str>>>,
    alias_bytes: usize,
    most_aliases: u16,
    /// Maximum number of messages routed together.
    most: usize,
    /// Deliveries per message of the last batch.
    pub(in crate::connection) each: usize,
    /// The processor of all receivers of the last batches, and the number of these batches.
    receivers: (Option<u16>, u8),
    /// Whether the session was persistent when the connection began.
    pub(in crate::connection) persistent: bool,
    /// The session's key and its ID in the journal; 0 if it is not persistent.
    session: (ClientKey, u64),
    /// Whether the client retransmits unacknowledged messages on its next connection.
    pub(in crate::connection) sends_again: bool,
    /// The time since which messages were left unacknowledged, because the journal was full.
    pub(in crate::connection) owes_since: Option<Duration>,
}

impl Publishing {
    pub(in crate::connection) fn new(
        most_aliases: u16,
        persistent: bool,
        session: (ClientKey, u64),
    ) -> Self {
        Self {
            aliases: Vec::new(),
            alias_bytes: 0,
            most_aliases,
            most: INITIAL_BATCH,
            each: 1,
            receivers: (None, 0),
            persistent,
            session,
            sends_again: false,
            owes_since: None,
        }
    }

    /// Records the processor of all receivers of a batch, if there is only one.
    pub(in crate::connection) fn record_receivers(&mut self, at: Option<u16>) {
        let (before, count) = self.receivers;
        self.receivers = (at, if at == before { count.saturating_add(1) } else { 1 });
    }

    /// The processor of the receivers of the last [`MIN_BATCHES`] batches, if there is only one.
    pub(in crate::connection) fn receivers_at(&self) -> Option<usize> {
        let (at, count) = self.receivers;
        at.filter(|_| count >= MIN_BATCHES).map(usize::from)
    }

    /// Adds a message to the batch.
    pub(in crate::connection) fn add(
        &mut self,
        batch: &mut Batch,
        publish: &Publish<'_>,
        (policy, identity, origin, drops): (&Policy, &Identity, Origin, &Drops),
        verdict: Verdict,
    ) -> Result<(), End> {
        // A message of another node has at most two subscription identifiers and those of its stamp.
        let mut alias = None;
        let mut ids = ([0; 2 + STAMP_IDENTIFIERS], 0);
        // User properties are forwarded without inspection.
        let others = match publish.properties.are_user() {
            true => Properties::NONE,
            false => publish.properties,
        };
        for property in others {
            match property {
                Property::TopicAlias(number) => alias = Some(usize::from(number)),
                Property::SubscriptionIdentifier(id) if identity.is_node() => {
                    let (ids, count) = &mut ids;
                    if let Some(place) = ids.get_mut(*count) {
                        (*place, *count) = (id, *count + 1);
                    }
                }
                Property::SubscriptionIdentifier(_) => {
                    let what = "a PUBLISH from a client has a subscription identifier";
                    return Err(End::Because(Reason::PROTOCOL_ERROR, what));
                }
                _ => (),
            }
        }
        let (stamp, ids) = Stamp::of_identifiers(&ids.0[..ids.1]);
        let synced = ids.first().and_then(|id| qos_of_sync(*id));
        let source = match synced {
            Some(_) => Source::Retained,
            None if identity.is_node() => source_of(ids),
            None => Source::Here,
        };
        let topic = match alias {
            None if publish.topic.is_empty() => {
                let what = "a PUBLISH has neither a topic nor a topic alias";
                return Err(End::Because(Reason::PROTOCOL_ERROR, what));
            }
            None => publish.topic,
            Some(alias) => {
                if !(1..=usize::from(self.most_aliases)).contains(&alias) {
                    let what = "a topic alias is 0 or exceeds the server's maximum";
                    return Err(End::Because(Reason::TOPIC_ALIAS_INVALID, what));
                }
                if self.aliases.len() < alias {
                    self.aliases.resize(alias, None);
                }
                let known = &mut self.aliases[alias - 1];
                if !publish.topic.is_empty() {
                    let before = known.as_ref().map_or(0, |topic| topic.len());
                    self.alias_bytes = self.alias_bytes - before + publish.topic.len();
                    if !may_have_alias(self.most_aliases, self.alias_bytes) {
                        let what = "the topics of the topic aliases are too long";
                        return Err(End::Because(Reason::QUOTA_EXCEEDED, what));
                    }
                    *known = Some(publish.topic.into());
                }
                match known {
                    Some(topic) => topic,
                    None => {
                        let what = "a topic alias is undefined";
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
            drops.add(cause, 1, || identity.as_publisher(Some(topic), origin));
            Some(reason)
        };
        let refused = match message::check(publish.topic, publish.properties, publish.payload) {
            Err((reason @ Reason::PAYLOAD_FORMAT_INVALID, _)) => {
                drop(DropReason::PayloadFormat, reason)
            }
            Err((reason, what)) => return Err(End::Because(reason, what)),
            Ok(()) if verdict == Verdict::Denied || !policy.may_publish(identity, topic) => {
                drop(DropReason::NotAuthorized, Reason::NOT_AUTHORIZED)
            }
            Ok(()) if verdict == Verdict::Undecided => {
                drop(DropReason::NotDecided, Reason::IMPLEMENTATION_SPECIFIC_ERROR)
            }
            // It follows a message that was not stored, and must not overtake it.
            Ok(()) if self.owes_since.is_some() && publish.delivery.id().is_some() => {
                Some(JOURNAL_FULL)
            }
            Ok(()) => None,
        };
        if let Some(reason) = refused {
            // Counted as received, even with QoS 0, which is not acknowledged.
            batch.refused.push((batch.deliveries.len(), reason));
            batch.deliveries.push(publish.delivery);
            return Ok(());
        }
        let traces = drops.events().traces();
        if traces.is_on() {
            let (qos, retain) = (publish.delivery.qos(), publish.retain);
            let passing = TracedPublish { topic, payload: publish.payload, qos, retain };
            traces.record("received", &identity.client, Some(passing));
        }
        let mut message = message_pool::get(publish, topic, self.session, now());
        if (source != Source::Here || publish.retain || self.sends_again)
            && let Some(own) = Arc::get_mut(&mut message)
        {
            own.source = source;
            own.is_kept_by_sender = self.sends_again && publish.delivery.id().is_some();
            own.qos = synced.unwrap_or(own.qos);
            own.set_stamp(stamp);
            own.publisher =
                (publish.retain && !identity.is_node()).then(|| identity.client.clone());
        }
        batch.bytes += message.size();
        batch.messages.push(message);
        batch.deliveries.push(publish.delivery);
        Ok(())
    }

    /// The topic of a message, resolved from its alias if it has one; `None` if the alias is invalid.
    pub(in crate::connection) fn topic<'a>(&'a self, publish: &Publish<'a>) -> Option<&'a str> {
        if !publish.topic.is_empty() {
            return Some(publish.topic);
        }
        let alias = publish.properties.iter().find_map(|property| match property {
            Property::TopicAlias(number) => Some(usize::from(number)),
            _ => None,
        });
        self.aliases.get(alias?.checked_sub(1)?)?.as_deref()
    }

    /// Adapts the batch size to the deliveries per message of the last batch.
    pub(in crate::connection) fn adapt_batch(&mut self, each: usize) {
        self.each = each;
        let fits = MAX_BATCH_DELIVERIES / each.max(1);
        self.most = fits.clamp(1, (self.most * 2).min(MAX_BATCH));
    }

    pub(in crate::connection) fn is_full(&self, batch: &Batch) -> bool {
        batch.deliveries.len() >= self.most || batch.bytes >= MAX_BATCH_BYTES
    }
}

#[cfg(test)]
mod tests {
    use phalanx::sim;
    use phalanx_mqtt::{Delivery, PropertyBuffer};

    use super::*;
    use crate::access;
    use crate::config::Config;
    use crate::events::EventLog;
    use crate::listen::{Scheme, interned};

    /// The number of these aliases that a client can define for topics of this length.
    fn defined(aliases: &[u16], bytes: usize) -> usize {
        let policy = access::open(&Config::new()).unwrap().load_full();
        let (drops, topic) = (Drops::new(EventLog::default()), "t".repeat(bytes));
        let identity = Identity { user: None, client: "c".into() };
        let listen = interned(Scheme::Mqtt.at(([0, 0, 0, 0], 1883)));
        let origin = Origin { address: None, listen };
        let key = ClientKey { partition: 0, slot: 0, generation: 0 };
        let (mut own, mut batch) = (Publishing::new(64, false, (key, 0)), Batch::default());
        let define = |alias: &&u16| {
            let mut properties = PropertyBuffer::new();
            properties.push(Property::TopicAlias(**alias)).unwrap();
            let publish = Publish {
                topic: &topic,
                payload: b"",
                delivery: Delivery::AtMostOnce,
                retain: false,
                duplicate: false,
                properties: properties.get(),
            };
            let of = (&*policy, &identity, origin, &drops);
            own.add(&mut batch, &publish, of, Verdict::Allowed).is_ok()
        };
        aliases.iter().take_while(define).count()
    }

    #[test]
    fn the_topics_of_aliases_are_bounded() {
        // Inside an operation, because messages read the runtime's clock.
        let main = |()| async {
            let all: Vec<_> = (1..=64).collect();
            assert_eq!(defined(&all, 1024), 64);
            assert_eq!(defined(&all, 60_000), 1);
            assert_eq!(defined(&[1; 64], 60_000), 64, "replaced topics do not count");
        };
        sim::block_on(0, Some(1), |_| (), main);
    }
}
