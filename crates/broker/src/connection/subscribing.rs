//! SUBSCRIBE and UNSUBSCRIBE of a connection.

use std::borrow::Cow;
use std::num::NonZero;

use phalanx_mqtt::{
    Packet, Properties, Property, PropertyBuffer, Reason, SubAck, Subscribe, UnsubAck, Unsubscribe,
    topic,
};

use crate::access::Covered;
use crate::connection::{Connection, End};
use crate::content::wanted::{self, Asked, OfPacket};
use crate::routing::Wanted;
use crate::trie::is_shallow;

/// Why something cannot be subscribed to, in words.
type Why = Cow<'static, str>;

impl Connection {
    pub(super) async fn subscribe(&mut self, subscribe: Subscribe<'_>) -> Result<(), End> {
        let identifier = subscribe.properties.iter().find_map(|property| match property {
            Property::SubscriptionIdentifier(number) => NonZero::new(number),
            _ => None,
        });
        let of_packet = OfPacket::of(subscribe.properties);
        let mut why = Why::Borrowed("");
        let mut all = Vec::new();
        for (filter, options) in subscribe.filters.iter() {
            let asked = of_packet.clone().map_err(Why::Owned);
            let asked = asked.and_then(|own| wanted::take_apart(filter, own).map_err(Why::Owned));
            let asked = asked.and_then(|asked| look(&asked).map(|()| asked));
            let asked = asked.map_err(|what| (Reason::TOPIC_FILTER_INVALID, what));
            let well = asked.and_then(|Asked { key, content }| {
                let covered = self.covered(&key)?;
                Ok(Wanted { key, content, options, identifier, covered })
            });
            all.push(well.map_err(|(reason, what)| {
                why = what;
                reason
            }));
            if options.no_local && filter.starts_with("$share/") {
                let what = "a shared subscription cannot leave out its client's own messages";
                return Err(End::Because(Reason::PROTOCOL_ERROR, what));
            }
        }
        let stages = self.context.stages;
        let asked = stages.sessions.subscribe(self.key, self.link, all, stages.routing);
        let reasons = asked.await.map_err(|_| Reason::SERVER_BUSY)?;
        let reasons: Vec<u8> = reasons.into_iter().map(|reason| reason.0).collect();
        let mut buffer = PropertyBuffer::new();
        let properties = self.reason(&mut buffer, &why);
        let ack = SubAck { id: subscribe.id, reasons: &reasons, properties };
        self.outbox.push(&Packet::SubAck(ack));
        Ok(())
    }

    /// How much of what a subscription matches this client may receive.
    fn covered(&self, key: &str) -> Result<Covered, (Reason, Why)> {
        let filter = topic::shared(wanted::path(key)).map_or("", |path| path.filter);
        let covered = self.policy.get().may_subscribe(&self.identity, filter);
        let why = "this client may receive nothing of what it asks for";
        covered.ok_or((Reason::NOT_AUTHORIZED, Why::Borrowed(why)))
    }

    pub(super) async fn unsubscribe(&mut self, unsubscribe: Unsubscribe<'_>) -> Result<(), End> {
        // With a filter that was refused nothing was subscribed to: without it, at most.
        let of_packet = OfPacket::of(unsubscribe.properties).unwrap_or_default();
        let keys = unsubscribe.filters.iter().map(|(filter, _)| wanted::key(filter, of_packet));
        let stages = self.context.stages;
        let asked = stages.sessions.unsubscribe(self.key, keys.collect(), stages.routing);
        let reasons = asked.await.map_err(|_| Reason::SERVER_BUSY)?;
        let reasons: Vec<u8> = reasons.into_iter().map(|reason| reason.0).collect();
        let properties = Properties::NONE;
        let ack = UnsubAck { id: unsubscribe.id, reasons: &reasons, properties };
        self.outbox.push(&Packet::UnsubAck(ack));
        Ok(())
    }
}

/// Whether this can be subscribed to; why not, if not.
fn look(asked: &Asked) -> Result<(), Why> {
    let Some(path) = topic::shared(wanted::path(&asked.key)) else {
        return Err("a shared subscription is $share/GROUP/FILTER".into());
    };
    if !topic::is_filter(path.filter) {
        return Err("a wildcard stands alone in its level, and # at the end".into());
    }
    if !is_shallow(path.filter) {
        return Err("the filter has more than 200 levels".into());
    }
    if path.group.is_some() && asked.content.is_some() {
        return Err("a shared subscription cannot have a filter on what messages carry".into());
    }
    Ok(())
}
