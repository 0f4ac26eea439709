//! The announcement of this node's filters: the pending changes for each other node, and the version that the node has.
//!
//! Each node gets all filters when its lane begins, and then changes. Unsent changes are merged by filter, so their
//! memory is bounded by the number of filters.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use indexmap::IndexSet;
use phalanx::sync::oneshot;
use phalanx::task::Either;
use phalanx::{select, sleep};

use super::filters::Filters;
use crate::lock::lock;

/// Maximum number of conditions announced per interval, in addition to those of new subscriptions.
const MAX_ANNOUNCED: usize = 4096;

/// The filters of this node, for all lanes.
#[derive(Default)]
pub(crate) struct Interest(Mutex<Table>);

#[derive(Default)]
struct Table {
    filters: Filters,
    /// The number of changes so far.
    version: u64,
    lanes: BTreeMap<Arc<str>, Lane>,
    waiting: Vec<Waiting>,
    /// The number of subscribers that have waited so far.
    waited: u64,
}

/// A subscriber that waits until all nodes have a version.
struct Waiting {
    number: u64,
    version: u64,
    wake: oneshot::Sender<()>,
}

/// Announcements to one node.
#[derive(Default)]
struct Lane {
    /// Unsent changes: new filters, and withdrawn ones.
    added: IndexSet<Box<str>>,
    removed: IndexSet<Box<str>>,
    /// The version of the filters that the node has.
    version: u64,
    /// Whether the node has received all filters with which the lane began.
    is_complete: bool,
    /// Whether a subscriber has waited for this node for too long.
    is_late: bool,
    wake: Option<oneshot::Sender<()>>,
}

/// Changes to be sent to a node.
pub(crate) struct Changes {
    pub(crate) added: Vec<Box<str>>,
    pub(crate) removed: Vec<Box<str>>,
    /// The version that the node has afterwards, if no changes remain.
    pub(crate) version: Option<u64>,
}

impl Interest {
    /// Adds a subscription of a client of this node. If it `is_computed`, it has a condition that an index does not
    /// decide.
    pub(crate) fn add(&self, key: &str, is_computed: bool) {
        lock(&self.0).change(|filters, on_change| filters.add(key, is_computed, on_change));
    }

    /// Removes a subscription of a client of this node.
    pub(crate) fn remove(&self, key: &str) {
        lock(&self.0).change(|filters, on_change| filters.remove(key, on_change));
    }

    /// Announces some of the conditions that a coarser filter still covers. Called at intervals.
    pub(crate) fn announce_remaining(&self) {
        lock(&self.0)
            .change(|filters, on_change| filters.announce_remaining(MAX_ANNOUNCED, on_change));
    }

    /// Begins a lane to a node, which gets all filters.
    pub(crate) fn begin(&self, node: &Arc<str>) {
        let mut table = lock(&self.0);
        let added = table.filters.all().map(Box::from).collect();
        table.lanes.insert(node.clone(), Lane { added, ..Lane::default() });
    }

    /// Ends the lane to a node. Subscribers no longer wait for it.
    pub(crate) fn end(&self, node: &str) {
        let mut table = lock(&self.0);
        table.lanes.remove(node);
        table.wake_waiting();
    }

    /// Takes up to `limit` changes for a node. Withdrawn filters come after all new ones, which may replace them.
    pub(crate) fn take(&self, node: &str, limit: usize) -> Changes {
        let mut table = lock(&self.0);
        let version = table.version;
        let Some(lane) = table.lanes.get_mut(node) else {
            return Changes { added: Vec::new(), removed: Vec::new(), version: None };
        };
        let added: Vec<_> = std::iter::from_fn(|| lane.added.pop()).take(limit).collect();
        let left = limit - added.len();
        let removed = std::iter::from_fn(|| lane.removed.pop()).take(left).collect();
        Changes { added, removed, version: (!lane.has_changes()).then_some(version) }
    }

    /// Sets the version up to which a node has all changes.
    pub(crate) fn set_version(&self, node: &str, version: u64) {
        let mut table = lock(&self.0);
        if let Some(lane) = table.lanes.get_mut(node) {
            lane.version = lane.version.max(version);
            lane.is_complete = true;
        }
        table.wake_waiting();
    }

    /// The current version of the filters.
    pub(crate) fn version(&self) -> u64 {
        lock(&self.0).version
    }

    /// Whether a node with a lane has all filters of this version.
    pub(crate) fn is_known(&self, node: &str, version: u64) -> bool {
        let table = lock(&self.0);
        table.lanes.get(node).is_some_and(|lane| lane.is_complete && lane.version >= version)
    }

    /// Whether there are changes for a node.
    pub(crate) fn has_changes(&self, node: &str) -> bool {
        lock(&self.0).lanes.get(node).is_some_and(Lane::has_changes)
    }

    /// Whether the lane to a node has to be closed, because a subscriber has waited for it for too long. The next lane
    /// begins with all filters.
    pub(crate) fn is_late(&self, node: &str) -> bool {
        lock(&self.0).lanes.get(node).is_some_and(|lane| lane.is_late)
    }

    /// Completes when there are changes for a node, or it [is late](Self::is_late). Called before
    /// [`has_changes`](Self::has_changes).
    pub(crate) fn changed(&self, node: &str) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::shared();
        if let Some(lane) = lock(&self.0).lanes.get_mut(node) {
            lane.wake = Some(sender);
        }
        receiver
    }

    /// Waits until all other nodes with a lane have the current filters, for at most `limit`. A lane that takes longer is
    /// late, unless it is still sending the filters with which it began.
    pub(crate) async fn wait_until_settled(&self, limit: Duration) {
        let (receiver, version, number) = {
            let mut table = lock(&self.0);
            let (version, number) = (table.version, table.waited);
            if table.min_version() >= version {
                return;
            }
            let (wake, receiver) = oneshot::shared();
            table.waiting.push(Waiting { number, version, wake });
            table.waited += 1;
            (receiver, version, number)
        };
        if let Either::Right(()) = select(receiver, sleep(limit)).await {
            let mut table = lock(&self.0);
            table.waiting.retain(|waiting| waiting.number != number);
            table.mark_late(version);
        }
    }
}

impl Lane {
    fn has_changes(&self) -> bool {
        !self.added.is_empty() || !self.removed.is_empty()
    }
}

impl Table {
    fn change(&mut self, change: impl FnOnce(&mut Filters, &mut dyn FnMut(&str, bool))) {
        let Self { filters, version, lanes, .. } = self;
        change(filters, &mut |key, is_added| {
            *version += 1;
            for lane in lanes.values_mut() {
                let Lane { added, removed, .. } = lane;
                let (to, from) = if is_added { (added, removed) } else { (removed, added) };
                from.swap_remove(key);
                to.insert(key.into());
                if let Some(wake) = lane.wake.take() {
                    wake.send(());
                }
            }
        });
    }

    /// The version that all nodes have.
    fn min_version(&self) -> u64 {
        self.lanes.values().map(|lane| lane.version).min().unwrap_or(u64::MAX)
    }

    fn wake_waiting(&mut self) {
        let min_version = self.min_version();
        for waiting in self.waiting.extract_if(.., |waiting| waiting.version <= min_version) {
            waiting.wake.send(());
        }
    }

    /// Marks the lanes to nodes that do not have this version.
    fn mark_late(&mut self, version: u64) {
        for lane in self.lanes.values_mut().filter(|lane| lane.version < version) {
            lane.is_late = lane.is_complete;
            if let Some(wake) = lane.wake.take() {
                wake.send(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use phalanx::sim;

    use super::*;

    #[test]
    fn a_lane_that_does_not_take_filters_is_late() {
        sim::block_on(
            0,
            None,
            |_| (),
            |()| async {
                let (interest, node) = (Interest::default(), Arc::from("b"));
                interest.begin(&node);
                interest.add("a", false);
                interest.wait_until_settled(Duration::from_secs(1)).await;
                assert!(!interest.is_late(&node), "it still begins");
                let version = interest.take(&node, usize::MAX).version.unwrap();
                interest.set_version(&node, version);
                interest.wait_until_settled(Duration::ZERO).await;
                assert!(!interest.is_late(&node), "it has all");
                interest.add("b", false);
                let changed = interest.changed(&node);
                interest.wait_until_settled(Duration::from_secs(1)).await;
                assert!(interest.is_late(&node) && changed.await.is_some());
                assert!(lock(&interest.0).waiting.is_empty());
                interest.begin(&node);
                assert!(!interest.is_late(&node));
            },
        );
    }
}
