//! SUBSCRIBE and UNSUBSCRIBE.

use std::borrow::Cow;
use std::num::NonZero;
use std::pin::pin;
use std::time::Duration;

use phalanx::sync::oneshot;
use phalanx::task::Either;
use phalanx::{select, sleep};
use phalanx_access::Action;
use phalanx_mqtt::{
    Packet, Properties, Property, PropertyBuffer, Reason, SubAck, Subscribe, SubscribeOptions,
    UnsubAck, Unsubscribe, Version, topic,
};

use crate::access::Covered;
use crate::access::permissions::Verdict;
use crate::connection::client::Connection;
use crate::connection::end::{End, UNDECIDED};
use crate::content::parse::{self, PacketFilter, PacketParser, ParsedSubscription};
use crate::content::path::path;
use crate::events::drops::{DropReason, Dropped};
use crate::model::subscriptions::subscription_size::SubscriptionSize;
use crate::model::subscriptions::trie::is_shallow;
use crate::requests::SubscriptionRequest;

const NOT_ALLOWED: &str = "this client may not subscribe to this topic filter";

/// The explanation of a rejection.
type Why = Cow<'static, str>;

/// Limits of one chunk of a long packet: subscriptions, bytes of their keys, and conditions in the alternatives of their
/// content filters. Chunks bound the time for which other clients wait, the memory used, and the size of journal entries.
/// A filter in a user property is part of every key, so a short packet can expand to gigabytes.
const MAX_CHUNK_SUBSCRIPTIONS: usize = 4096;
const MAX_CHUNK_BYTES: usize = 1 << 20;
const MAX_CHUNK_CONDITIONS: usize = SubscriptionSize::MAX_AT_ONCE;

const _: () = assert!(
    MAX_CHUNK_SUBSCRIPTIONS * 64 + MAX_CHUNK_BYTES + 3 * 65_535 < phalanx_store::Entry::MAX_BYTES
);

/// Maximum time for which the output of the session waits for SUBACK. A disk rarely takes as long for a write; with a slower
/// one, the messages of other subscriptions would fill the session's queue, and be dropped.
const MAX_SESSION_HOLD: Duration = Duration::from_millis(100);

/// The size of the current chunk.
#[derive(Default)]
struct Chunk {
    subscriptions: usize,
    bytes: usize,
    conditions: usize,
}

impl Chunk {
    /// Adds a subscription with a key of `bytes`, and a content filter with this number of conditions; returns whether
    /// the chunk is full, and starts the next.
    fn is_full(&mut self, bytes: usize, conditions: usize) -> bool {
        self.subscriptions += 1;
        self.bytes += bytes;
        self.conditions += conditions;
        let is_full = self.subscriptions >= MAX_CHUNK_SUBSCRIPTIONS
            || self.bytes >= MAX_CHUNK_BYTES
            || self.conditions >= MAX_CHUNK_CONDITIONS;
        if is_full {
            *self = Self::default();
        }
        is_full
    }
}

impl Connection {
    pub(in crate::connection) async fn subscribe(
        &mut self,
        subscribe: Subscribe<'_>,
    ) -> Result<(), End> {
        let identifier = subscribe.properties.iter().find_map(|property| match property {
            Property::SubscriptionIdentifier(number) => NonZero::new(number),
            _ => None,
        });
        // Checked before subscribing, because a client without a response would wait forever.
        let reasons = &vec![0; subscribe.filters.iter().count()];
        let ack = SubAck { id: subscribe.id, reasons, properties: Properties::NONE };
        self.check_ack_size(&Packet::SubAck(ack))?;
        let is_wrong = |filter: &str, options: SubscribeOptions| {
            options.no_local && filter.starts_with("$share/")
        };
        if subscribe.filters.iter().any(|(filter, options)| is_wrong(filter, options)) {
            let what = "No Local is not allowed for a shared subscription";
            return Err(End::Because(Reason::PROTOCOL_ERROR, what));
        }
        let parser = self.packet_filter(subscribe.properties).map(PacketParser::new);
        let mut why = Why::Borrowed("");
        let (mut all, mut reasons, mut chunk) = (Vec::new(), Vec::new(), Chunk::default());
        let mut is_undecided = false;
        let mut left = subscribe.filters.iter().peekable();
        while let Some((filter, options)) = left.next() {
            let asked = parser.as_ref().map_err(|what| Why::Owned(what.clone()));
            let asked = asked.and_then(|parser| parser.parse(filter).map_err(Why::Owned));
            let asked = asked.and_then(|asked| check(&asked).map(|()| asked));
            let asked = asked.map_err(|what| (Reason::TOPIC_FILTER_INVALID, what));
            let mut well = asked.and_then(|ParsedSubscription { key, content }| {
                let covered = self.covered(&key)?;
                let only_at_most_once = false;
                Ok(SubscriptionRequest {
                    key,
                    content,
                    options,
                    identifier,
                    covered,
                    only_at_most_once,
                })
            });
            if let Ok(wanted) = &well
                && self.policy.load().permissions(&self.client.identity).is_some()
            {
                // Boxed, because few brokers have a service.
                let decided = Box::pin(self.decide_filter(&wanted.key, &mut is_undecided)).await;
                well = well.and_then(|wanted| decided.map(|()| wanted));
            }
            if matches!(well, Err((Reason::NOT_AUTHORIZED, _))) {
                let what = || Dropped { is_publisher: false, ..self.as_publisher(Some(filter)) };
                let drops = &self.context.counters.drops;
                drops.add(DropReason::SubscriptionNotAuthorized, 1, what);
            }
            let content = |wanted: &SubscriptionRequest| {
                wanted.content.as_ref().map_or(0, |content| content.filter.conditions())
            };
            let size = well.as_ref().map_or((0, 0), |wanted| (wanted.key.len(), content(wanted)));
            all.push(well.map_err(|(reason, what)| {
                // Keep the explanation of the first rejected filter.
                if why.is_empty() {
                    why = what;
                }
                reason
            }));
            let is_last = left.peek().is_none();
            if chunk.is_full(size.0, size.1) || is_last {
                let is_only = is_last && reasons.is_empty();
                self.subscribe_chunk(std::mem::take(&mut all), is_only, &mut reasons).await?;
            }
        }
        // Other nodes have to know the filters before the response: a message published after it must reach this client.
        if let Some(peers) =
            self.context.counters.peers.clone().filter(|_| !self.client.identity.is_node())
        {
            // This may take long, and the client may have other subscriptions.
            self.outbox.release_session();
            let limit = self.context.config.cluster.timeout;
            peers.interest.wait_until_settled(limit).await;
            peers.handovers.wait_until_settled(limit).await;
        }
        let mut buffer = PropertyBuffer::new();
        let properties = self.reason(&mut buffer, &why);
        let ack = SubAck { id: subscribe.id, reasons: &reasons, properties };
        self.outbox.push(&Packet::SubAck(ack));
        self.outbox.release_session();
        Ok(())
    }

    /// Subscribes to one chunk, and appends the reason codes to `reasons`. `is_only` tells whether the packet has no other
    /// chunks.
    async fn subscribe_chunk(
        &self,
        chunk: Vec<Result<SubscriptionRequest, Reason>>,
        is_only: bool,
        reasons: &mut Vec<u8>,
    ) -> Result<(), End> {
        // Retained messages follow SUBACK, which many clients expect, although they may precede it (§3.8.4). The messages of
        // other subscriptions wait as well, so several chunks, which may take long, hold nothing. Another node sends its
        // requests between its messages, which need not wait.
        if is_only && !self.client.identity.is_node() {
            self.outbox.hold_session();
        }
        let (stages, connection) = (self.context.stages, (self.key, self.connection_id));
        let (has_many, many) = oneshot::shared();
        let asked = stages.sessions.subscribe(connection, chunk, stages.routing, Some(has_many));
        let (mut asked, mut limit) = (pin!(asked), pin!(sleep(MAX_SESSION_HOLD)));
        let is_too_long = async {
            // Many messages would not fit the session's queue. There are not many if the sender is dropped.
            if let Either::Left(None) = select(many, limit.as_mut()).await {
                limit.await;
            }
        };
        let asked = match select(asked.as_mut(), is_too_long).await {
            Either::Left(asked) => asked,
            Either::Right(()) => {
                self.outbox.release_session();
                asked.await
            }
        };
        let asked = asked.map_err(|_| Reason::SERVER_BUSY)?;
        reasons.extend(asked.into_iter().map(|reason| reason.0));
        Ok(())
    }

    /// Checks that the response fits the client's maximum packet size (MQTT-3.1.2-24).
    fn check_ack_size(&self, answer: &Packet<'_>) -> Result<(), End> {
        let what = "the response would exceed the client's maximum packet size";
        let takes = self.outbox.takes(answer);
        takes.then_some(()).ok_or(End::Because(Reason::PACKET_TOO_LARGE, what))
    }

    /// The content filter in the properties of a packet. Other nodes may always send one, on behalf of their clients.
    fn packet_filter<'a>(&self, properties: Properties<'a>) -> Result<PacketFilter<'a>, String> {
        if self.context.config.content_filters || self.client.identity.is_node() {
            PacketFilter::from_properties(properties)
        } else {
            Ok(PacketFilter::LITERAL)
        }
    }

    /// Checks which messages of a subscription this client may receive.
    fn covered(&mut self, key: &str) -> Result<Covered, (Reason, Why)> {
        let filter = path(key).map_or("", |path| path.filter);
        let covered = self.policy.load().may_subscribe(&self.client.identity, filter);
        covered.ok_or((Reason::NOT_AUTHORIZED, Why::Borrowed(NOT_ALLOWED)))
    }

    /// Asks the service whether this client may subscribe. If the service fails to answer once, it is not asked about the
    /// rest of the packet.
    async fn decide_filter(
        &mut self,
        key: &str,
        is_undecided: &mut bool,
    ) -> Result<(), (Reason, Why)> {
        let filter = path(key).map_or("", |path| path.filter);
        let verdict = match is_undecided {
            true => Verdict::Undecided,
            false => self.decide(Action::Subscribe, filter).await.0,
        };
        *is_undecided = verdict == Verdict::Undecided;
        let refused = |reason, why| Err((reason, Why::Borrowed(why)));
        match verdict {
            Verdict::Allowed => Ok(()),
            Verdict::Denied => refused(Reason::NOT_AUTHORIZED, NOT_ALLOWED),
            Verdict::Undecided => refused(Reason::IMPLEMENTATION_SPECIFIC_ERROR, UNDECIDED),
        }
    }

    pub(in crate::connection) async fn unsubscribe(
        &mut self,
        unsubscribe: Unsubscribe<'_>,
    ) -> Result<(), End> {
        let reasons = &vec![0; unsubscribe.filters.iter().count()];
        let ack = UnsubAck { id: unsubscribe.id, reasons, properties: Properties::NONE };
        self.check_ack_size(&Packet::UnsubAck(ack))?;
        let Ok(of_packet) = self.packet_filter(unsubscribe.properties) else {
            // No subscription can exist with these properties.
            let reasons = &vec![Reason::TOPIC_FILTER_INVALID.0; reasons.len()];
            self.outbox.push(&Packet::UnsubAck(UnsubAck { reasons, ..ack }));
            return Ok(());
        };
        let (mut all, mut reasons, mut chunk) = (Vec::new(), Vec::new(), Chunk::default());
        let mut left = unsubscribe.filters.iter().peekable();
        while let Some((filter, _)) = left.next() {
            let key = parse::key(filter, of_packet);
            // Conditions count as 0: only existing subscriptions take time in the index, and the session limits their
            // conditions.
            let is_full = chunk.is_full(key.len(), 0);
            all.push((key, parse::other_key(filter, of_packet)));
            if is_full || left.peek().is_none() {
                self.unsubscribe_chunk(std::mem::take(&mut all), &mut reasons).await?;
            }
        }
        let failed =
            reasons.iter().map(|reason| Reason(*reason)).find(|reason| reason.is_failure());
        if let Some(reason) = failed.filter(|_| self.client.version == Version::V3) {
            // UNSUBACK of MQTT 3.1.1 has no reason codes, so the client would believe that the subscription was removed.
            let is_busy = reason == Reason::IMPLEMENTATION_SPECIFIC_ERROR;
            return Err(if is_busy { Reason::SERVER_BUSY } else { reason }.into());
        }
        let properties = Properties::NONE;
        let ack = UnsubAck { id: unsubscribe.id, reasons: &reasons, properties };
        self.outbox.push(&Packet::UnsubAck(ack));
        Ok(())
    }

    /// Ends the subscriptions of one chunk, and appends the reason codes to `reasons`. Each is given by its key, and by
    /// the key that the same text may have had under other settings.
    async fn unsubscribe_chunk(
        &self,
        chunk: Vec<(Box<str>, Option<Box<str>>)>,
        reasons: &mut Vec<u8>,
    ) -> Result<(), End> {
        let (keys, others): (Vec<_>, Vec<_>) = chunk.into_iter().unzip();
        let mut ended = self.end_subscriptions(keys).await?;
        // The subscription may be from a time when `?` in topic filters had another meaning for this client.
        let missing = ended.iter_mut().zip(others);
        let missing = missing.filter(|(reason, _)| **reason == Reason::NO_SUBSCRIPTION_EXISTED);
        let (places, others): (Vec<_>, Vec<_>) =
            missing.filter_map(|(reason, other)| Some((reason, other?))).unzip();
        if !others.is_empty() {
            let again = self.end_subscriptions(others).await?;
            places.into_iter().zip(again).for_each(|(place, reason)| *place = reason);
        }
        reasons.extend(ended.into_iter().map(|reason| reason.0));
        Ok(())
    }

    async fn end_subscriptions(&self, keys: Vec<Box<str>>) -> Result<Vec<Reason>, End> {
        let (stages, connection) = (self.context.stages, (self.key, self.connection_id));
        let ended = stages.sessions.unsubscribe(connection, keys, stages.routing).await;
        ended.map_err(|_| Reason::SERVER_BUSY.into())
    }
}

/// Checks the topic filter of a subscription.
fn check(asked: &ParsedSubscription) -> Result<(), Why> {
    let Some(path) = path(&asked.key) else { return Err("the topic filter is missing".into()) };
    if !topic::is_filter(path.filter) {
        return Err("wildcards must be whole levels, and # must be the last level".into());
    }
    if !is_shallow(path.filter) {
        return Err("the filter has more than 200 levels".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of subscriptions in the first chunk, for keys of this size and number of conditions.
    fn in_chunk(bytes: usize, conditions: usize) -> usize {
        let mut chunk = Chunk::default();
        (1..).find(|_| chunk.is_full(bytes, conditions)).expect("a bound")
    }

    #[test]
    fn chunks_are_bounded() {
        assert_eq!(in_chunk(1, 0), MAX_CHUNK_SUBSCRIPTIONS);
        assert_eq!(in_chunk(8192, 64), MAX_CHUNK_BYTES / 8192);
        let most =
            phalanx_matcher::Filter::MAX_ALTERNATIVES * phalanx_matcher::Filter::MAX_CONDITIONS;
        assert_eq!(in_chunk(600, most), MAX_CHUNK_CONDITIONS / most);
    }
}
