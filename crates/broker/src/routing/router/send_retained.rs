//! Retained messages for a new subscriber.

use std::sync::Arc;
use std::time::Duration;

use phalanx_mqtt::QoS;

use super::clients::Client;
use super::{Router, how};
use crate::access::Policy;
use crate::content::attributes::Attributes;
use crate::content::parse::Content;
use crate::content::path::path;
use crate::events::drops::{DropReason, Dropped};
use crate::model::delivery::{DeliveryBatch, How};
use crate::model::message::Message;
use crate::model::subscribers::Subscription;
use crate::requests::{FirstIds, PendingRetained};

/// Maximum number of retained messages examined for one SUBSCRIBE, matching or not. Other clients wait
/// meanwhile.
const MAX_EXAMINED: usize = 1_000_000;

impl Router {
    /// Takes IDs of messages and of deliveries.
    pub(crate) fn reserve(&mut self, count: u64) -> FirstIds {
        self.wal.reserve(count)
    }

    /// Adds deliveries of retained messages for a client that subscribed, if it still exists. Messages beyond
    /// the limit are omitted.
    pub(crate) fn send_retained(
        &mut self,
        PendingRetained { client, requests }: &PendingRetained,
        (now, policy): (Duration, &Policy),
        batch: &mut DeliveryBatch,
    ) {
        let Some(index) = self.indices.get(client) else { return };
        let Client { key, durable_id, identity, .. } = &self.clients[*index as usize];
        // Messages beyond the client's queue limit are omitted here, before they take memory.
        let (most, mut left_out) = (batch.deliveries.len().saturating_add(self.most), 0);
        let mut examined = 0;
        for request in requests {
            let Some(path) = path(&request.key) else { continue };
            if left_out > 0 {
                break;
            }
            let own = Subscription {
                options: request.options,
                identifier: request.identifier,
                covered: request.covered,
            };
            let mut give = |message: &Arc<Message>| {
                examined += 1;
                if examined > MAX_EXAMINED {
                    left_out += 1;
                    return;
                }
                if request.options.no_local
                    && message.publisher.as_deref() == Some(&*identity.client)
                {
                    return;
                }
                let satisfies = |content: &Content| {
                    let attributes = Attributes::of(message, content.json);
                    content.filter.matches(&attributes.list())
                };
                if request.content.as_ref().is_none_or(satisfies)
                    && policy.may_receive(request.covered, identity, &message.topic)
                {
                    if batch.deliveries.len() >= most {
                        left_out += 1;
                        return;
                    }
                    let how = How { retain: true, ..how(own, message) };
                    let is_durable = *durable_id != 0 && how.qos != QoS::AtMostOnce;
                    let delivery = batch.add(*key, message, how);
                    if is_durable {
                        self.wal.queue(*durable_id, message, delivery);
                        self.wal.next();
                    }
                }
            };
            self.retained.below(path.filter, now, &mut give);
            if path.filter.starts_with('$') {
                self.system.below(path.filter, now, &mut give);
            }
        }
        let (client, user) = (Some(&*identity.client), identity.user.as_deref());
        let what = || Dropped { client, user, ..Dropped::default() };
        self.drops.add(DropReason::RetainedLeftOut, left_out, what);
    }
}
