//! Messages that this node held for a lost one: to the adopting node, or to the adopted sessions here.

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
    /// Moves messages from the session of a lost node. After the last ones that session gets no more, and the mark
    /// follows. Each is recorded with its removal from that session, so that a crash neither loses nor repeats one.
    pub(crate) fn hand_over(
        &mut self,
        own: HandingOver,
        batches: &mut [DeliveryBatch],
        at: (&Policy, Duration),
    ) {
        let HandingOver { from, to, adoption, messages, last } = own;
        match to {
            None => {
                for Handed { message, how, number } in &messages {
                    let source = match source_of(how.identifiers.get()) {
                        Source::Node => Source::Handed(adoption),
                        handed => handed,
                    };
                    self.wal.moves(from, *number);
                    self.publish_own(&[Arc::new(message.handed(source))], batches, at);
                }
            }
            Some(node) => {
                for Handed { message, how, number } in messages {
                    let identifiers = handed_over(&how.identifiers, adoption);
                    self.wal.moves(from, number);
                    self.send_to_node(node, &message, How { identifiers, ..how }, batches);
                }
            }
        }
        let Some(last) = last else { return };
        if let Some((session, keys)) = last.session {
            self.forget(session, &keys);
        }
        match to {
            None => self.marked(adoption, ""),
            Some(node) => {
                let message = Arc::new(Message::mark());
                let how = How { qos: message.qos, identifiers: mark(adoption), retain: false };
                self.send_to_node(node, &message, how, batches);
            }
        }
    }

    /// Routes messages without a limit.
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

    /// Adds a delivery to another node.
    fn send_to_node(
        &mut self,
        node: ClientKey,
        message: &Arc<Message>,
        how: How,
        batches: &mut [DeliveryBatch],
    ) {
        let Some(index) = self.indices.get(&node) else {
            let what = || Dropped { topic: Some(&message.topic), ..Dropped::default() };
            self.drops.add(DropReason::SessionEnded, 1, what);
            return;
        };
        let durable_id = self.clients[*index as usize].durable_id;
        let delivery = batches[usize::from(node.partition)].add(node, message, how);
        if durable_id != 0 {
            self.wal.queue(durable_id, message, delivery);
        }
        self.wal.come(message);
    }

    /// A node has handed over everything: the adopted sessions get its messages as usual.
    pub(super) fn marked(&mut self, adoption: u32, node: &str) {
        let Some(peers) = &self.peers else { return };
        if let Some(session) = peers.handovers.marked(adoption, node) {
            self.wal.handed_over(session);
        }
    }
}
