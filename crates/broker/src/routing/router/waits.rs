//! Publishers that wait because the queue for another node is full.

use std::sync::Arc;

use phalanx_mqtt::{QoS, Reason};

use super::Router;
use crate::model::client_key::ClientKey;
use crate::model::message::{Message, Source};
use crate::model::room::Room;
use crate::requests::NODE_FULL;

/// The publishers in the current batch that have to wait.
#[derive(Default)]
pub(super) struct Waits {
    /// Publishers that have waited for the maximum time. Their messages are queued anyway.
    insisting: Vec<ClientKey>,
    held: Vec<(ClientKey, Arc<Room>)>,
}

impl Router {
    /// Exempts this publisher from waiting, because it has waited for the maximum time.
    pub(crate) fn insist(&mut self, publisher: Option<ClientKey>) {
        self.waits.insisting.extend(publisher);
    }

    /// The queue that a publisher has to wait for, if its messages were not routed.
    pub(crate) fn room_of(&self, publisher: Option<ClientKey>) -> Option<Arc<Room>> {
        let held = self.waits.held.iter().find(|(held, _)| Some(*held) == publisher);
        held.map(|(_, room)| room.clone())
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
            let room = clients[client as usize].room.as_ref();
            room.filter(|room| room.is_full())
        };
        if waits.held.is_empty() && nodes.iter().all(|node| full(*node).is_none()) {
            return;
        }
        let mut receivers = [found, alone].map(|all| all.iter().peekable());
        for (n, (message, reason)) in messages.iter().zip(reasons).enumerate() {
            let mut room = None;
            for receivers in &mut receivers {
                while let Some((_, client, _)) = receivers.next_if(|(at, ..)| *at as usize == n) {
                    room = room.or_else(|| full(*client));
                }
            }
            let Some(from) = message.from.filter(|_| message.source == Source::Here) else {
                continue;
            };
            if waits.held.iter().any(|(held, _)| *held == from) {
                *reason = NODE_FULL;
            } else if let Some(room) = room
                && message.qos != QoS::AtMostOnce
                && !waits.insisting.contains(&from)
            {
                *reason = NODE_FULL;
                waits.held.push((from, room.clone()));
            }
        }
    }
}
