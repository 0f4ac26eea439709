//! Cuts, and the subscriptions of a session that moves to another node: see `cluster/moving/mod.rs`.

use std::sync::Arc;

use phalanx_mqtt::QoS;

use super::Router;
use super::clients::node_of;
use crate::access::NODE_CLIENTS;
use crate::content::path::{has_content, path};
use crate::model::client_key::ClientKey;
use crate::model::delivery::{DeliveryBatch, How};
use crate::model::handed::cut;
use crate::model::message::Message;
use crate::model::moving::{Cut, CutNodes};
use crate::model::subscriptions::subscribers::{ClientIndex, Subscription};

impl Router {
    /// Puts a mark into the queue of this node's session, and into the lanes to all other nodes, which answer with their own
    /// marks. Returns their journals. If one of them is not ready, this does nothing and returns no journals.
    pub(crate) fn cut(
        &mut self,
        own: &Cut,
        known: &CutNodes,
        batches: &mut [DeliveryBatch],
    ) -> Vec<String> {
        let all = self.nodes.iter().map(|node| self.journal(*node).to_owned());
        let (nodes, rest): (Vec<_>, Vec<_>) = all.partition(|node| known.leased.contains(node));
        if rest.iter().any(|node| known.unready.contains(node)) {
            return Vec::new();
        }
        self.divide(own, batches);
        for node in &nodes {
            self.send_cut(own, node, batches);
        }
        nodes
    }

    /// Delivers the mark of another node. If it is the holder's, this node sends its own marks to the holder, the new node and
    /// the session here at the same moment.
    pub(super) fn cut_came(&mut self, message: &Arc<Message>, batches: &mut [DeliveryBatch]) {
        let origin = node_of(message, &self.indices, &self.clients).unwrap_or_default();
        // A node that has adopted a journal passes on marks that the lost node had queued. These do not count.
        let came = Cut::read(&message.payload).filter(|cut| cut.by == origin);
        if let Some(came) = &came {
            self.divide_at(&came.token, message, batches);
        }
        if let Some(came) = came.filter(|cut| cut.by == cut.from) {
            let own = Cut { by: came.at.clone(), ..came };
            self.divide(&own, batches);
            for node in [&own.from, &own.to] {
                self.send_cut(&own, node, batches);
            }
        }
        self.wal.come(message);
    }

    /// Puts this node's mark into the queue of the move's session at this node, if there is one.
    fn divide(&self, own: &Cut, batches: &mut [DeliveryBatch]) {
        self.divide_at(&own.token, &Arc::new(Message::cut(own.write())), batches);
    }

    fn divide_at(&self, token: &str, cut: &Arc<Message>, batches: &mut [DeliveryBatch]) {
        let session = self.peers.as_ref().and_then(|peers| peers.moves.session(token));
        if let Some(session) = session {
            let how = How { qos: QoS::AtLeastOnce, ..How::default() };
            batches[usize::from(session.partition)].add(session, cut, how);
        }
    }

    /// Sends a mark to the node with this journal.
    fn send_cut(&mut self, own: &Cut, journal: &str, batches: &mut [DeliveryBatch]) {
        let node = self.nodes.iter().find(|node| self.journal(**node) == journal);
        let Some(node) = node.map(|node| self.clients[*node as usize].key) else { return };
        let message = Message::cut(Cut { at: journal.to_owned(), ..own.clone() }.write());
        let how = How { qos: message.qos, identifiers: cut(), retain: false };
        self.send_to_node(node, &Arc::new(message), (how, false), batches);
    }

    fn journal(&self, node: ClientIndex) -> &str {
        let client = &self.clients[node as usize].identity.client;
        client.strip_prefix(NODE_CLIENTS).unwrap_or_default()
    }

    /// The subscriptions of a client with these keys.
    pub(crate) fn subscriptions(
        &mut self,
        client: ClientKey,
        keys: Vec<Box<str>>,
    ) -> Vec<(Box<str>, Subscription)> {
        let Some(index) = self.indices.get(&client).copied() else { return Vec::new() };
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            let own = match (path(&key), has_content(&key)) {
                (None, _) => None,
                (Some(path), true) => self.content.find((index, path.group.is_some(), &key)),
                (Some(path), false) => {
                    let here = self.subscribers.get_mut(path.filter);
                    here.and_then(|here| here.each.get(&index).copied())
                }
            };
            found.extend(own.map(|subscription| (key, subscription)));
        }
        found
    }
}
