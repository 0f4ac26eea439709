//! Routes messages: finds their receivers, retains the messages, and adds the deliveries.

use std::sync::Arc;
use std::time::Duration;

use phalanx::time::time_of_day;
use phalanx_mqtt::{QoS, Reason};

use super::Router;
use super::clients::{Client, node_of};
use super::members::choose;
use super::receivers::{RETAINING, dropped, how, is_by, is_excluded, is_for};
use crate::access::Policy;
use crate::content::attributes;
use crate::content::index::Owner;
use crate::events::drops::{DropReason, Drops};
use crate::model::delivery::{DeliveryBatch, How};
use crate::model::message::{Message, Source};
use crate::model::subscriptions::subscribers::{ClientIndex, Subscription};
use crate::requests::{JOURNAL_FULL, NODE_FULL};
use crate::routing::retained::MAX_SWEPT_PER_STEP;
use crate::routing::router_wal::RouterWal;

/// Maximum number of events matched together. Larger cohorts gain nothing.
const MAX_EVENTS: usize = 4096;

impl Router {
    /// Adds the deliveries of `messages` to the batches of their receivers' partitions. `messages` is not empty. Routes
    /// at least one message, and stops when `room` deliveries or the [work](Self::is_exhausted) of a cohort are reached.
    /// Returns the number of messages routed, and appends their results to `reasons`.
    pub(crate) fn publish(
        &mut self,
        messages: &[Arc<Message>],
        batches: &mut [DeliveryBatch],
        (policy, now): (&Policy, Duration),
        (room, reasons): (usize, &mut Vec<Reason>),
    ) -> usize {
        // Read only once, because both uses must agree: a message is refused exactly if its receivers were not looked up.
        let is_full = self.wal.is_full();
        if let Some(first) = messages.first().filter(|message| message.source == Source::Cut) {
            // A cut must not overtake a refused message. The lane sends both again.
            let is_refused = is_full || reasons.contains(&JOURNAL_FULL);
            reasons.push(if is_refused { JOURNAL_FULL } else { Reason::SUCCESS });
            if !is_refused {
                self.cut_came(first, batches);
            }
            return 1;
        }
        let messages = &messages[..self.find(messages, (policy, is_full), room)];
        let before = reasons.len();
        reasons.resize(before + messages.len(), Reason::NO_MATCHING_SUBSCRIBERS);
        let reasons = &mut reasons[before..];
        self.hold(messages, reasons);
        let not_retained = self.retain(messages, (now, is_full), reasons);
        self.deliver(messages, batches, (policy, now), (reasons, &not_retained));
        messages.len()
    }

    /// Finds the receivers of as many messages as are to be routed now. Returns the number of these messages.
    fn find(
        &mut self,
        messages: &[Arc<Message>],
        (policy, is_full): (&Policy, bool),
        room: usize,
    ) -> usize {
        let Self { subscribers, content, clients, found, alone, runs, nodes, online, wal, .. } =
            self;
        let (mut asked, mut end) = (0, 0);
        // The receivers of the last run, and the deliveries of the messages after the first in all runs.
        let (mut receivers, mut repeated) = (0, 0);
        for (n, message) in messages.iter().enumerate() {
            let is_enough =
                found.len() + alone.len() + repeated >= room || asked >= self.events_at_once;
            if end > 0 && (is_enough || content.is_exhausted() || message.source == Source::Cut) {
                break;
            }
            end = n + 1;
            if matches!(message.source, Source::Mark(_) | Source::Retained)
                || (is_full && message.wants_keeping())
            {
                continue;
            }
            if let Some((first, count)) = runs.last_mut()
                && *first + *count == n
                && message.is_like(&messages[*first])
                && (message.has_publisher_of(&messages[*first])
                    || !has_no_local(&found[receivers..]))
            {
                *count += 1;
                repeated += found.len() - receivers;
                continue;
            }
            // Nodes may be full for some messages only. The journal has a record for each message.
            let mut is_run = nodes.is_empty() && (message.qos == QoS::AtMostOnce || !wal.is_on());
            receivers = found.len();
            let n = n as u32;
            if message.retain && message.source == Source::Here {
                found.extend(nodes.iter().map(|node| (n, *node, RETAINING)));
            }
            // The event is encoded at most twice for all topic filters: with the payload's fields and without them.
            let mut events = [None, None];
            subscribers.matching(&message.topic, |here| {
                is_run &= here.groups.is_empty() && here.content.is_empty();
                if !matches!(message.source, Source::Group(_)) {
                    found.reserve(here.each.len());
                    here.each.iter().for_each(|(client, own)| found.push((n, *client, *own)));
                }
                for group in here.groups.iter().filter(|group| is_for(message, group)) {
                    let chosen = choose(group, message, (clients, online), policy);
                    alone.extend(chosen.map(|(client, subscription)| (n, client, subscription)));
                }
                for numbered in &here.content {
                    let event = events[usize::from(numbered.json)].get_or_insert_with(|| {
                        attributes::encode_event(message, numbered.json, content)
                    });
                    content.add_event(n, numbered.number, event.clone());
                    asked += 1;
                }
            });
            if is_run {
                runs.push((n as usize, 1));
            }
        }
        match asked {
            0 => end,
            _ => self.find_by_content(&messages[..end], policy, room.saturating_sub(repeated)),
        }
    }

    /// Adds the receivers with content filters, in message order. Stops at the first message whose deliveries exceed
    /// `room`. Returns the number of messages before it.
    #[inline(never)]
    fn find_by_content(
        &mut self,
        messages: &[Arc<Message>],
        policy: &Policy,
        room: usize,
    ) -> usize {
        let Self { content, clients, found, alone, runs, events_at_once, online, routed, .. } =
            self;
        let before = found.len() + alone.len();
        let (events, unmatched) = content.match_events(room.saturating_sub(before));
        let end = unmatched.map_or(messages.len(), |first| first as usize);
        runs.retain_mut(|(first, count)| {
            *count = (*count).min(end.saturating_sub(*first));
            *count > 0
        });
        found.retain(|(n, ..)| (*n as usize) < end);
        alone.retain(|(n, ..)| (*n as usize) < end);
        let before = found.len() + alone.len();
        content.for_each_match(messages, |n, owner| match owner {
            Owner::Client(client, own) => {
                let known = &clients[*client as usize];
                let number = *routed + u64::from(n) + 1;
                // A node announces the content filters of all its clients. It gets a message once, for the first filter
                // that matches.
                let is_found = known.is_node && known.found.replace(number) == number;
                if !is_found && !matches!(messages[n as usize].source, Source::Group(_)) {
                    found.push((n, *client, *own));
                }
            }
            Owner::Group(group) => {
                let message = &messages[n as usize];
                if !is_for(message, group) {
                    return;
                }
                let chosen = choose(group, message, (clients, online), policy);
                alone.extend(chosen.map(|(client, subscription)| (n, client, subscription)));
            }
        });
        let each = (found.len() + alone.len() - before).div_ceil(events).max(1);
        // A quarter fewer than fit on average, because events that do not fit are matched again.
        let fit = (room / each).saturating_sub(room / each / 4);
        let fit = fit.min(content.affordable_events(events));
        let fit = if unmatched.is_some() { events.min(fit) } else { fit };
        *events_at_once = fit.clamp(1, (*events_at_once * 2).min(MAX_EVENTS));
        found.sort_by_key(|(n, ..)| *n);
        alone.sort_by_key(|(n, ..)| *n);
        end
    }

    /// Retains messages, and refuses those for which the journal or the retained messages have no space. Returns the
    /// indices, in order, of the messages that are delivered although they are not retained.
    fn retain(
        &mut self,
        messages: &[Arc<Message>],
        (now, is_full): (Duration, bool),
        reasons: &mut [Reason],
    ) -> Vec<usize> {
        let Self { retained, wal, drops, peers, .. } = self;
        let mut not_retained = Vec::new();
        for (n, (message, reason)) in messages.iter().zip(reasons).enumerate() {
            if matches!(message.source, Source::Mark(_)) || *reason == NODE_FULL {
                continue;
            }
            if is_full && message.wants_keeping() {
                *reason = JOURNAL_FULL;
                if !message.is_kept_by_sender {
                    drops.add(wal.full_reason(), 1, || dropped(message));
                }
                continue;
            }
            if !message.is_to_be_retained() {
                continue;
            }
            if let Some(peers) = peers {
                if message.source == Source::Here {
                    let before = retained.stamp(&message.topic);
                    message.set_stamp(before.next(time_of_day(), &peers.id));
                } else if retained.supersedes(message) {
                    not_retained.push(n);
                    continue;
                }
            }
            let kept = retained.sweep_and_keep(message, now, |message, deletion| {
                forget(wal, drops, (message, deletion))
            });
            if let Err(refused) = kept {
                drops.add(DropReason::RetainedFull, 1, || dropped(message));
                let is_refused = message.source == Source::Here && !message.is_kept_by_sender;
                match is_refused && message.wants_keeping() {
                    true => *reason = refused,
                    // It cannot be refused: it is a will, or another broker has acknowledged it.
                    false => not_retained.push(n),
                }
            }
        }
        not_retained
    }

    /// Removes some of the expired retained messages. Returns whether none is left.
    pub(crate) fn sweep(&mut self, now: Duration) -> bool {
        let Self { retained, wal, drops, .. } = self;
        let forget =
            |message: &Message, deletion: Option<&Message>| forget(wal, drops, (message, deletion));
        let swept = retained.sweep(now, MAX_SWEPT_PER_STEP, forget);
        swept < MAX_SWEPT_PER_STEP
    }

    /// Adds the deliveries to the receivers that were found.
    fn deliver(
        &mut self,
        messages: &[Arc<Message>],
        batches: &mut [DeliveryBatch],
        (policy, now): (&Policy, Duration),
        (reasons, not_retained): (&mut [Reason], &[usize]),
    ) {
        let Self { retained, clients, found, alone, runs, routed, .. } = self;
        let Self { wal, durable, drops, peers, indices, .. } = self;
        let keeps = wal.is_on();
        let (mut found, mut alone) = (found.drain(..).peekable(), alone.drain(..).peekable());
        let mut runs = runs.drain(..).peekable();
        for (n, message) in messages.iter().enumerate() {
            let count = runs.next_if(|(first, _)| *first == n).map_or(1, |(_, count)| count);
            let run = n..n + count;
            *routed += 1;
            let is_refused = reasons[n].is_failure();
            let is_handed = matches!(message.source, Source::Handed(_));
            if let Source::Mark(adoption) = message.source
                && let Some(peers) = peers
                && let Some(node) = node_of(message, indices, clients)
                && let Some(session) = peers.handovers.end_awaited(adoption, node)
            {
                wal.handed_over(session);
            }
            while let Some((_, client, own)) = found.next_if(|(at, ..)| *at as usize == n) {
                let client = &clients[client as usize];
                if is_refused || (own.options.no_local && is_by(message, client)) {
                    continue;
                }
                if (client.is_special() || is_handed)
                    && is_excluded(client, message, node_of(message, indices, clients), peers)
                {
                    continue;
                }
                if !policy.may_receive(own.covered, &client.identity, &message.topic) {
                    continue;
                }
                reasons[run.clone()].fill(Reason::SUCCESS);
                let batch = &mut batches[usize::from(client.target.0.partition)];
                let (last, at) = client.last.get();
                if last == *routed {
                    let how = &mut batch.deliveries[at].how;
                    how.qos = how.qos.max(own.options.qos.min(message.qos));
                    how.retain |= own.options.retain_as_published && message.retain;
                    how.identifiers.add(own.identifier);
                    continue;
                }
                client.last.set((*routed, batch.deliveries.len()));
                add(batch, durable, client, &messages[run.clone()], how(own, message));
            }
            // A shared subscription delivers in addition to the member's own subscriptions.
            while let Some((_, client, own)) = alone.next_if(|(at, ..)| *at as usize == n) {
                if is_refused {
                    continue;
                }
                reasons[n] = Reason::SUCCESS;
                let client = &clients[client as usize];
                let batch = &mut batches[usize::from(client.target.0.partition)];
                add(batch, durable, client, &messages[n..=n], how(own, message));
            }
            if matches!(message.source, Source::Group(_)) && reasons[n] != Reason::SUCCESS {
                drops.add(DropReason::ClusterNoMember, 1, || dropped(message));
            }
            if keeps && !reasons[n].is_failure() {
                if message.is_to_be_retained() && not_retained.binary_search(&n).is_err() {
                    // A later message of this cohort may have swept it because it has expired.
                    let is_gone = message.has_expired(now) && !retained.holds(message);
                    // A full journal gets space back by a deletion.
                    let deletion = retained.deletion(&message.topic).filter(|_| !wal.is_full());
                    match (is_gone || message.payload.is_empty(), deletion) {
                        (false, _) => wal.retain(message, message),
                        (true, Some(deletion)) => wal.retain(deletion, message),
                        (true, None) => wal.unretain(message),
                    }
                }
                for (session, partition, at) in durable.drain(..) {
                    let delivery = &mut batches[usize::from(partition)].deliveries[at as usize];
                    if delivery.how.qos != QoS::AtMostOnce {
                        wal.queue(session, message, delivery);
                    }
                }
                wal.come(message);
            }
        }
    }
}

/// Records that an expired message is no longer retained, perhaps with the deletion in its place, or that a deletion is
/// forgotten.
fn forget(wal: &mut RouterWal, drops: &Drops, (message, deletion): (&Message, Option<&Message>)) {
    match deletion.filter(|_| wal.is_on() && !wal.is_full()) {
        Some(deletion) => wal.retain(deletion, deletion),
        None => wal.forget(message),
    }
    if !message.payload.is_empty() {
        drops.add(DropReason::RetainedExpired, 1, || dropped(message));
    }
}

/// Whether a subscription excludes the messages of its client.
fn has_no_local(found: &[(u32, ClientIndex, Subscription)]) -> bool {
    found.iter().any(|(.., subscription)| subscription.options.no_local)
}

/// Adds the delivery of a run to the batch of the receiving partition. A delivery to a durable session is also noted in
/// `durable`, for the journal.
fn add(
    batch: &mut DeliveryBatch,
    durable: &mut Vec<(u64, u16, u32)>,
    client: &Client,
    run: &[Arc<Message>],
    how: How,
) {
    let (key, durable_id) = client.target;
    if durable_id != 0 {
        durable.push((durable_id, key.partition, batch.deliveries.len() as u32));
    }
    batch.add_run(key, run, how);
}
