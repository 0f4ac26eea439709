//! Retained messages for a client that has just subscribed.

use std::sync::Arc;
use std::time::Duration;

use phalanx_mqtt::QoS;

use super::{Client, Router, how};
use crate::access::Policy;
use crate::content::attributes::Attributes;
use crate::content::path::path;
use crate::content::wanted::Content;
use crate::drops::DropReason;
use crate::message::Message;
use crate::routing::Owing;
use crate::routing::delivery::{Batch, How};
use crate::routing::subscribers::Subscription;

/// Maximum number of retained messages examined for one SUBSCRIBE, matching or not. No other client is served
/// meanwhile.
const LOOKED_AT: usize = 1_000_000;

impl Router {
    /// Adds retained messages to `batch` for a client that has subscribed to them, if it is still there. Some are left out
    /// where there are too many.
    pub(crate) fn send_retained(
        &mut self,
        Owing { client, wanted }: &Owing,
        (now, policy): (Duration, &Policy),
        batch: &mut Batch,
    ) {
        let Some(index) = self.indices.get(client) else { return };
        let Client { key, kept, identity, .. } = &self.clients[*index as usize];
        // Messages beyond the client's queue limit are dropped here, before they take memory.
        let (most, mut left_out) = (batch.deliveries.len().saturating_add(self.most), 0);
        let mut looked_at = 0;
        for wanted in wanted {
            let Some(path) = path(&wanted.key) else { continue };
            if left_out > 0 {
                break;
            }
            let own = Subscription {
                options: wanted.options,
                identifier: wanted.identifier,
                covered: wanted.covered,
            };
            let mut give = |message: &Arc<Message>| {
                looked_at += 1;
                if looked_at > LOOKED_AT {
                    left_out += 1;
                    return;
                }
                let satisfies = |content: &Content| {
                    let attributes = Attributes::of(message, content.json);
                    content.filter.matches(&attributes.list())
                };
                if wanted.content.as_ref().is_none_or(satisfies)
                    && policy.may_receive(wanted.covered, identity, &message.topic)
                {
                    if batch.deliveries.len() >= most {
                        left_out += 1;
                        return;
                    }
                    let how = How { retain: true, ..how(own, message) };
                    let is_kept = *kept != 0 && how.qos != QoS::AtMostOnce;
                    let delivery = batch.add(*key, message, how);
                    if is_kept {
                        self.keeping.queue(*kept, message, delivery);
                        self.keeping.next();
                    }
                }
            };
            self.retained.below(path.filter, now, &mut give);
            if path.filter.starts_with('$') {
                self.system.below(path.filter, now, &mut give);
            }
        }
        let example = || format!("for client {:?}", identity.client);
        self.drops.add(DropReason::RetainedLeftOut, left_out, example);
    }
}
