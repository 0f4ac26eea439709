//! The numbers of online members of shared subscriptions. Those at this node are announced to the other nodes and to the
//! router; those at other nodes are passed to the router.

use std::sync::Arc;

use crate::cluster::node::Node;
use crate::cluster::peer_node::PeerNode;
use crate::lane::Lane;
use crate::peers::members::ROUTER;
use crate::requests::Item;

/// Maximum number of groups in one request to the router.
const MAX_GROUPS: usize = 4096;

impl Node {
    /// Tells the router the changed numbers at this node; the first time, all of them.
    pub(in crate::cluster) fn announce_own_members(&self) {
        let Some(counts) = self.peers.members.take(ROUTER, MAX_GROUPS) else { return };
        let routing = self.context.stages.routing;
        if routing.dispatch(Item::Members { node: None, counts }).is_err() {
            // The router is full. Later it gets all numbers again.
            self.peers.members.begin(&Arc::from(ROUTER));
        }
    }

    /// Announces the numbers at this node to another node, and passes those of the other node to the router.
    pub(in crate::cluster) fn exchange_members(&self, other: &PeerNode, lane: &Lane) {
        lane.announce_members();
        let Some(node) = other.session.get() else { return };
        let Some(counts) = lane.take_members() else { return };
        let item = Item::Members { node: Some(node), counts: counts.clone() };
        if self.context.stages.routing.dispatch(item).is_err() {
            lane.return_members(counts);
        }
    }
}
