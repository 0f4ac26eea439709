//! Makes a publisher wait while the queue for another node of the cluster is full. Meanwhile its messages are not
//! acknowledged, and nothing is read from it.

use std::time::Duration;

use phalanx::shutdown::{draining, is_draining};
use phalanx::time::now;
use phalanx::{select, sleep};

use crate::connection::client::Connection;
use crate::model::node_capacity::NodeCapacity;

/// Maximum time for which a publisher waits, as a multiple of the cluster's timeout.
const MAX_TIMEOUTS: u32 = 4;

/// The interval at which a waiting connection checks whether it has ended, as a fraction of that time.
const POLLS: u32 = 100;

impl Connection {
    /// Maximum time for which the messages of a batch wait. They are then routed even if the queue is full.
    pub(super) fn node_limit(&self) -> Duration {
        self.context.config.cluster.timeout * MAX_TIMEOUTS
    }

    /// Waits for space in the queue, and adds the time to `waited`. Returns false if the connection has to end.
    pub(super) async fn wait_for_node(
        &self,
        capacity: &NodeCapacity,
        waited: &mut Duration,
    ) -> bool {
        let (begun, limit) = (now(), self.node_limit().saturating_sub(*waited));
        let wait = capacity.wait(limit);
        let ended = async {
            while !self.outbox.is_closed() && !is_draining() {
                select(sleep(self.node_limit() / POLLS), draining()).await;
            }
        };
        select(Box::pin(wait), Box::pin(ended)).await;
        *waited = if is_draining() { self.node_limit() } else { *waited + (now() - begun) };
        !self.outbox.is_closed() || is_draining()
    }
}
