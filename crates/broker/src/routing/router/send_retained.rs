//! Retained messages for a new subscriber, and for operators.

use std::sync::Arc;
use std::time::Duration;

use phalanx_mqtt::QoS;

use super::Router;
use super::clients::Client;
use super::receivers::{how, is_by};
use crate::access::Policy;
use crate::content::attributes::Attributes;
use crate::content::path::path;
use crate::events::drops::{DropReason, Dropped};
use crate::model::delivery::{DeliveryBatch, How};
use crate::model::message::Message;
use crate::model::subscriptions::subscribers::Subscription;
use crate::requests::{BrowseRequest, FirstIds, PendingRetained, RetainedProgress};
use crate::routing::retained::{Flow, RetainedBudget};

/// Maximum number of topics examined for one SUBSCRIBE, matching or not.
const MAX_EXAMINED: usize = 1_000_000;

impl Router {
    /// Reserves `count` message IDs and as many delivery IDs.
    pub(crate) fn reserve(&mut self, count: u64) -> FirstIds {
        self.wal.reserve(count)
    }

    /// Adds deliveries of retained messages for a client that subscribed, if it still exists. Omits messages beyond the
    /// limit. Returns false if the share of the budget is exhausted; a later cohort then continues.
    pub(crate) fn send_retained(
        &mut self,
        PendingRetained { client, requests, progress }: &mut PendingRetained,
        (now, policy): (Duration, &Policy),
        batch: &mut DeliveryBatch,
        budget: &mut RetainedBudget,
    ) -> bool {
        let Some(index) = self.indices.get(client) else { return true };
        let subscriber = &self.clients[*index as usize];
        let Client { key, durable_id, identity, .. } = subscriber;
        let is_continued = progress.examined > 0;
        let mut share = budget.share(!is_continued);
        let RetainedProgress { request: current, is_system, after, examined, delivered, left_out } =
            progress;
        while let Some(request) = requests.get(*current) {
            let Some(path) = path(&request.key) else {
                *current += 1;
                continue;
            };
            if *examined >= MAX_EXAMINED {
                // The remaining topics are not examined. They count as one omitted message.
                *left_out += 1;
                break;
            }
            if share.is_spent() {
                return false;
            }
            let own = Subscription {
                options: request.options,
                identifier: request.identifier,
                covered: request.covered,
            };
            let most = share.topics().min(MAX_EXAMINED - *examined);
            let mut give = |message: &Arc<Message>| {
                if request.options.no_local && is_by(message, subscriber) {
                    return Flow::Continue;
                }
                let mut flow = Flow::Continue;
                if let Some(content) = &request.content {
                    let payload = if content.json { message.payload.len() } else { 0 };
                    // The length of the filter counts, too, because each of its conditions looks up an attribute.
                    let read = request.key.len() + message.properties_bytes() + payload;
                    if !share.take(read) {
                        return Flow::EndBefore;
                    }
                    if share.is_spent() {
                        flow = Flow::EndBehind;
                    }
                    if !Attributes::new(message, content.json).satisfy(&content.filter) {
                        return flow;
                    }
                }
                if !policy.may_receive(request.covered, identity, &message.topic) {
                    return flow;
                }
                let how = How { retain: true, ..how(own, message) };
                if request.only_at_most_once && how.qos != QoS::AtMostOnce {
                    return flow;
                }
                // Messages beyond the client's queue limit are omitted here, before memory is allocated for their
                // deliveries.
                if *delivered >= self.most {
                    *left_out += 1;
                    return flow;
                }
                *delivered += 1;
                let is_durable = *durable_id != 0 && how.qos != QoS::AtMostOnce;
                let delivery = batch.add(*key, message, how);
                if is_durable {
                    self.wal.queue(*durable_id, message, delivery);
                    self.wal.next();
                }
                flow
            };
            let table = if *is_system { &self.system } else { &self.retained };
            let scanned = table.scan(path.filter, (after.as_deref(), most), now, &mut give);
            *examined += scanned.examined;
            budget.spend(&mut share, scanned.examined);
            if let Some(last) = scanned.last {
                *after = Some(last.into());
            }
            if scanned.is_complete {
                *after = None;
                *is_system = !*is_system && path.filter.starts_with('$');
                *current += usize::from(!*is_system);
            }
        }
        let (client, user) = (Some(&*identity.client), identity.user.as_deref());
        let what = || Dropped { client, user, ..Dropped::default() };
        self.drops.add(DropReason::RetainedLeftOut, *left_out, what);
        if *durable_id != 0 && is_continued {
            // The client also waits for the records of the deliveries that earlier cohorts made.
            self.wal.await_all();
        }
        true
    }

    /// Returns a page of retained messages, and the last examined topic if there may be more.
    pub(crate) fn browse(
        &self,
        BrowseRequest { filter, after, most, topics }: &BrowseRequest,
        now: Duration,
    ) -> (Vec<Arc<Message>>, Option<Box<str>>) {
        let mut found = Vec::new();
        let scanned = self.retained.scan(filter, (after.as_deref(), *topics), now, |message| {
            found.push(message.clone());
            if found.len() < *most { Flow::Continue } else { Flow::EndBehind }
        });
        let next = scanned.last.filter(|_| !scanned.is_complete).map(Into::into);
        (found, next)
    }
}
