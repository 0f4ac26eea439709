//! SUBSCRIBE and UNSUBSCRIBE of a connection.

use std::num::NonZero;

use phalanx_mqtt::{
    Packet, Property, PropertyBuffer, Reason, SubAck, Subscribe, SubscribeOptions, UnsubAck,
    Unsubscribe, topic,
};

use crate::connection::{Connection, End};
use crate::routing::Wanted;
use crate::trie::is_shallow;

impl Connection {
    pub(super) async fn subscribe(&mut self, subscribe: Subscribe<'_>) -> Result<(), End> {
        let identifier = subscribe.properties.iter().find_map(|property| match property {
            Property::SubscriptionIdentifier(number) => NonZero::new(number),
            _ => None,
        });
        let mut why = "";
        let mut wanted = Vec::new();
        for (filter, options) in subscribe.filters.iter() {
            wanted.push(match look(filter, options) {
                Ok(()) => Ok(Wanted { filter: filter.into(), options, identifier }),
                Err(End::Because(reason, what)) if reason != Reason::PROTOCOL_ERROR => {
                    why = what;
                    Err(reason)
                }
                Err(end) => return Err(end),
            });
        }
        let stages = self.context.stages;
        let asked = stages.sessions.subscribe(self.key, self.link, wanted, stages.routing);
        let reasons = asked.await.map_err(|_| Reason::SERVER_BUSY)?;
        let reasons: Vec<u8> = reasons.into_iter().map(|reason| reason.0).collect();
        let mut buffer = PropertyBuffer::new();
        let properties = self.reason(&mut buffer, why);
        let ack = SubAck { id: subscribe.id, reasons: &reasons, properties };
        self.outbox.push(&Packet::SubAck(ack));
        Ok(())
    }

    pub(super) async fn unsubscribe(&mut self, unsubscribe: Unsubscribe<'_>) -> Result<(), End> {
        let filters = unsubscribe.filters.iter().map(|(filter, _)| filter.into()).collect();
        let stages = self.context.stages;
        let asked = stages.sessions.unsubscribe(self.key, filters, stages.routing);
        let reasons = asked.await.map_err(|_| Reason::SERVER_BUSY)?;
        let reasons: Vec<u8> = reasons.into_iter().map(|reason| reason.0).collect();
        let properties = phalanx_mqtt::Properties::NONE;
        let ack = UnsubAck { id: unsubscribe.id, reasons: &reasons, properties };
        self.outbox.push(&Packet::UnsubAck(ack));
        Ok(())
    }
}

/// Whether this can be subscribed to.
fn look(filter: &str, options: SubscribeOptions) -> Result<(), End> {
    let invalid = |what| Err(End::Because(Reason::TOPIC_FILTER_INVALID, what));
    let Some(path) = topic::shared(filter) else {
        return invalid("a shared subscription is $share/GROUP/FILTER");
    };
    if !topic::is_filter(path.filter) {
        return invalid("a wildcard stands alone in its level, and # at the end");
    }
    if !is_shallow(path.filter) {
        return invalid("the filter has more than 200 levels");
    }
    if path.group.is_some() && options.no_local {
        let what = "a shared subscription cannot leave out its client's own messages";
        return Err(End::Because(Reason::PROTOCOL_ERROR, what));
    }
    Ok(())
}
