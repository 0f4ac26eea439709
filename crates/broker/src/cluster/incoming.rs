//! Handles announcements and frames from other nodes.

use std::rc::Rc;

use phalanx::runtime::report;
use phalanx::shutdown::is_draining;
use phalanx::time::now;
use phalanx_nats::Message;

use crate::cluster::node::Node;
use crate::cluster::peer_node::{Hello, PeerNode, VERSION};
use crate::cluster::{serving, takeover};
use crate::config::cluster::is_word;
use crate::lane::frame::NodeFrame;

impl Node {
    /// Handles an announcement.
    pub(super) fn handle_hello(&self, message: &Message<'_>) {
        let Ok(hello) = serde_json::from_slice::<Hello>(message.payload) else { return };
        if hello.node.is_empty() || !is_word(&hello.node) {
            return;
        }
        if hello.node == *self.name {
            if hello.start != self.start {
                let status = self.peers.status.node(&self.name);
                let reason = "another node has the same name; set a node-name for each".to_owned();
                if status.set_connection(Err(reason.clone()), now()) {
                    report(format_args!("cluster: {reason}"));
                }
            }
            return;
        }
        if hello.version != VERSION {
            let status = self.peers.status.node(&hello.node.as_str().into());
            let reason = format!("the node has another version ({})", hello.version);
            status.set_connection(Err(reason), now());
            return;
        }
        let known = self.others.borrow().get(hello.node.as_str()).cloned();
        match known {
            Some(other) => {
                other.last_hello.set(now());
                let claims = hello.claims;
                let before = other.hello.replace(hello);
                if before.start != other.start() {
                    other.reset_claims();
                    other.close("the node started again");
                    // After its restart, the node does not know this one.
                    self.send_hello();
                }
                if let Some(sent) = claims {
                    other.record_claims(sent, false);
                }
            }
            None => {
                let other = Rc::new(PeerNode::new(hello, self.timeout));
                self.others.borrow_mut().insert(other.name.clone(), other);
                // The node may not know this one either.
                self.send_hello();
            }
        }
    }

    /// Handles a frame from another node.
    pub(super) fn handle_frame(self: &Rc<Self>, message: &Message<'_>) {
        let from = message.subject.rsplit('.').next().unwrap_or_default();
        let Some(other) = self.others.borrow().get(from).cloned() else { return };
        if message.is_undelivered() {
            // The node was killed, for example, or it lost its connection and will open another lane.
            return other.close("the node is not connected to NATS");
        }
        let Some(frame) = NodeFrame::decode(message.payload) else { return };
        let lane = other.lane.borrow().clone();
        let lane = |id: u64| lane.clone().filter(|lane| lane.id() == id);
        match frame {
            NodeFrame::Claims(json) => takeover::handle_claims(self, json),
            NodeFrame::Data(data) => match lane(data.lane) {
                Some(lane) => lane.receive(data),
                None => {
                    self.refuse(&other, data.lane, "the lane does not exist");
                }
            },
            NodeFrame::HandOver { lane: id, json } => {
                if lane(id).is_some() {
                    self.handle_handover_request(&other, json);
                }
            }
            NodeFrame::AskReceived { lane: id, json } => {
                if lane(id).is_some() {
                    self.handle_received_request(&other, json);
                }
            }
            NodeFrame::Received { lane: id, json } => {
                if lane(id).is_some() {
                    self.handle_received(&other, json);
                }
            }
            NodeFrame::Close { lane: id, reason } => {
                if let Some(lane) = lane(id) {
                    lane.mark_closed(&format!("closed by the node: {reason}"));
                    other.granted.take();
                }
            }
            NodeFrame::Accept(side) => {
                if lane(side.lane).is_some()
                    && let Some(granted) = other.granted.take()
                {
                    granted.send(side);
                }
            }
            // A repeated request.
            NodeFrame::Open(side) if lane(side.lane).is_some() => (),
            NodeFrame::Open(side) => {
                let is_current = side.to == self.start && side.from == other.hello.borrow().start;
                // The other node has already closed an earlier lane.
                other.close("the node opens another lane");
                if !is_current || is_draining() || !other.try_begin() {
                    self.refuse(&other, side.lane, "not now");
                    return;
                }
                let (own, control) = (self.clone(), self.context.stages.control);
                let (of, id) = (other.clone(), side.lane);
                let served = control.dispatch(move |_| async move {
                    serving::accept(&own, &of, side).await;
                    of.release();
                });
                if served.is_err() {
                    other.release();
                    self.refuse(&other, id, "the node is busy");
                }
            }
        }
    }

    fn refuse(&self, other: &PeerNode, lane: u64, reason: &str) {
        let mut payload = Vec::new();
        NodeFrame::Close { lane, reason }.encode(&mut payload);
        self.send(&other.name, &payload);
    }
}
