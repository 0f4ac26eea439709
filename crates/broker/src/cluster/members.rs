//! The members of shared subscriptions that are online: this node's are announced to the others and to its router, and
//! those of the others to the router.

use std::sync::Arc;

use crate::cluster::node::Node;
use crate::cluster::other::Other;
use crate::lane::Lane;
use crate::peers::members::ROUTER;
use crate::requests::Item;

/// Maximum number of groups that the router takes at once.
const MAX_GROUPS: usize = 4096;

impl Node {
    /// Tells the router the members at this node. The first time it gets all.
    pub(super) fn tend_own_members(&self) {
        let Some(counts) = self.peers.members.take(ROUTER, MAX_GROUPS) else { return };
        let routing = self.context.stages.routing;
        if routing.dispatch(Item::Members { node: None, counts }).is_err() {
            // It is full. Later it gets all.
            self.peers.members.begin(&Arc::from(ROUTER));
        }
    }

    /// Announces the members at this node to another one, and tells the router those of the other one.
    pub(super) fn tend_members(&self, other: &Other, lane: &Lane) {
        lane.tell_members();
        let Some(node) = other.session.get() else { return };
        let Some(counts) = lane.take_members() else { return };
        let item = Item::Members { node: Some(node), counts: counts.clone() };
        if self.context.stages.routing.dispatch(item).is_err() {
            lane.return_members(counts);
        }
    }
}
