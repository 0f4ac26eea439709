//! Publishers that wait because the queue for another node is full.

use std::sync::Arc;

use phalanx_mqtt::{QoS, Reason};

use super::Router;
use crate::model::client_key::ClientKey;
use crate::model::message::{Message, Source};
use crate::model::node_capacity::NodeCapacity;
use crate::requests::NODE_FULL;

/// The publishers in the current batch that have to wait.
#[derive(Default)]
pub(super) struct Waits {
    /// Publishers that have waited for the maximum time. Their messages are queued anyway.
    insisting: Vec<ClientKey>,
    held: Vec<(ClientKey, Arc<NodeCapacity>)>,
}

impl Router {
    /// Exempts this publisher from waiting, because it has waited for the maximum time.
    pub(crate) fn insist(&mut self, publisher: Option<ClientKey>) {
        self.waits.insisting.extend(publisher);
    }

    /// The queue that a publisher has to wait for, if its messages were not routed.
    pub(crate) fn full_node_of(&self, publisher: Option<ClientKey>) -> Option<Arc<NodeCapacity>> {
        let held = self.waits.held.iter().find(|(held, _)| Some(*held) == publisher);
        held.map(|(_, capacity)| capacity.clone())
    }

    /// Clears the state after a batch was routed.
    pub(crate) fn end_waits(&mut self) {
        self.waits.insisting.clear();
        self.waits.held.clear();
    }

    /// Marks messages of QoS 1 and 2 for a node whose queue is full as [`NODE_FULL`], and all messages that the same
    /// publishers sent after them, so that the order of each publisher is preserved.
    pub(super) fn hold(&mut self, messages: &[Arc<Message>], reasons: &mut [Reason]) {
        let Self { nodes, clients, waits, found, alone, .. } = self;
        let full = |client: u32| {
            let capacity = clients[client as usize].node_capacity.as_ref();
            capacity.filter(|capacity| capacity.is_full())
        };
        if waits.held.is_empty() && nodes.iter().all(|node| full(*node).is_none()) {
            return;
        }
        let mut receivers = [found, alone].map(|all| all.iter().peekable());
        for (n, (message, reason)) in messages.iter().zip(reasons).enumerate() {
            let mut capacity = None;
            for receivers in &mut receivers {
                while let Some((_, client, _)) = receivers.next_if(|(at, ..)| *at as usize == n) {
                    capacity = capacity.or_else(|| full(*client));
                }
            }
            let Some(from) = message.from.filter(|_| message.source == Source::Here) else {
                continue;
            };
            if waits.held.iter().any(|(held, _)| *held == from) {
                *reason = NODE_FULL;
            } else if let Some(capacity) = capacity
                && message.qos != QoS::AtMostOnce
                && !waits.insisting.contains(&from)
            {
                *reason = NODE_FULL;
                waits.held.push((from, capacity.clone()));
            }
        }
    }
}
