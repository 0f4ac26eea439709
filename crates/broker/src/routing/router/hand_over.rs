//! Moves messages that this node had queued for a lost node to the adopting node, or to the adopted sessions here. Also
//! moves messages that a lost node had queued for another node to that node, or to its sessions here.

use std::sync::Arc;
use std::time::Duration;

use super::Router;
use crate::access::Policy;
use crate::events::drops::{DropReason, Dropped};
use crate::model::client_key::ClientKey;
use crate::model::delivery::{DeliveryBatch, How};
use crate::model::handed::{handed_over, mark, source_of};
use crate::model::message::{Message, Source};
use crate::requests::{Handed, HandingOver};

impl Router {
    /// Moves messages from the session of a lost node, or of an awaited handover. Each message is recorded together with
    /// its removal from that session, so a crash neither loses nor repeats it. After the last messages the session's
    /// subscriptions are removed. If it was a lost node's session, the mark follows.
    pub(crate) fn hand_over(
        &mut self,
        own: HandingOver,
        batches: &mut [DeliveryBatch],
        at: (&Policy, Duration),
    ) {
        let HandingOver { from, to, adoption, publisher, messages, last } = own;
        for Handed { message, how, number } in messages {
            self.wal.moves(from, number);
            let Some(node) = to else {
                let source = match (source_of(how.identifiers.get()), adoption) {
                    (Source::Node, Some(adoption)) => Source::Handed(adoption),
                    (source, _) => source,
                };
                let copy = message.moved(source, &how, publisher.clone());
                self.publish_own(&[Arc::new(copy)], batches, at);
                continue;
            };
            if publisher.is_some() && matches!(source_of(how.identifiers.get()), Source::Mark(_)) {
                // The receiver would take the mark for the end of this node's handover. The lost node's handover ends
                // without it. Cuts name the node that made them: those of this node follow the relayed messages, and
                // those of the lost node do not count.
                self.wal.come(&message);
                continue;
            }
            let how = match adoption {
                Some(adoption) => {
                    How { identifiers: handed_over(&how.identifiers, adoption), ..how }
                }
                None => how,
            };
            self.send_to_node(node, &message, (how, adoption.is_none()), batches);
        }
        let Some(last) = last else { return };
        self.end_relay(from);
        if let Some((session, keys)) = last.session {
            self.forget(session, &keys);
        }
        match (adoption.filter(|_| publisher.is_none()), to) {
            (None, _) => (),
            (Some(adoption), None) => self.marked(adoption, ""),
            (Some(adoption), Some(node)) => {
                let message = Arc::new(Message::mark());
                let how = How { qos: message.qos, identifiers: mark(adoption), retain: false };
                self.send_to_node(node, &message, (how, false), batches);
            }
        }
    }

    /// Routes messages without a limit on their deliveries.
    pub(super) fn publish_own(
        &mut self,
        messages: &[Arc<Message>],
        batches: &mut [DeliveryBatch],
        at: (&Policy, Duration),
    ) {
        let (mut reasons, mut routed) = (Vec::new(), 0);
        while routed < messages.len() {
            let (left, room) = (&messages[routed..], (usize::MAX, &mut reasons));
            routed += self.publish(left, batches, at, room);
        }
    }

    /// Adds a delivery to another node. It follows the messages in the node's relays, unless it comes from one of them
    /// (`of_relay`).
    pub(super) fn send_to_node(
        &mut self,
        node: ClientKey,
        message: &Arc<Message>,
        (how, of_relay): (How, bool),
        batches: &mut [DeliveryBatch],
    ) {
        let Some(index) = self.indices.get(&node) else {
            let what = || Dropped { topic: Some(&message.topic), ..Dropped::default() };
            self.drops.add(DropReason::SessionEnded, 1, what);
            return;
        };
        let client = &self.clients[*index as usize];
        let (key, durable_id) = match of_relay {
            true => (client.key, client.durable_id),
            false => client.target,
        };
        let delivery = batches[usize::from(key.partition)].add(key, message, how);
        if durable_id != 0 {
            self.wal.queue(durable_id, message, delivery);
        }
        self.wal.passed();
    }

    /// Ends the handover from a node that has handed over everything. The adopted sessions then get its messages as
    /// usual.
    pub(super) fn marked(&mut self, adoption: u32, node: &str) {
        let Some(peers) = &self.peers else { return };
        if let Some(session) = peers.handovers.end_awaited(adoption, node) {
            self.wal.handed_over(session);
        }
    }
}
