//! A publisher waits while the queue for another node of the cluster is full. Its messages are not acknowledged meanwhile,
//! and nothing is read from it.

use std::time::Duration;

use phalanx::shutdown::{draining, is_draining};
use phalanx::time::now;
use phalanx::{select, sleep};

use crate::connection::client::Connection;
use crate::model::room::Room;

/// Maximum time for which a publisher waits, in timeouts of the cluster.
const MAX_TIMEOUTS: u32 = 4;

/// Part of this time after which a waiting connection looks for its end.
const POLLS: u32 = 100;

impl Connection {
    /// Maximum time for which the messages of a batch wait. After that they are routed in any case.
    pub(super) fn node_limit(&self) -> Duration {
        self.context.config.cluster.timeout * MAX_TIMEOUTS
    }

    /// Waits for room, and adds the time to `waited`. Returns false if the connection is to end.
    pub(super) async fn wait_for_node(&self, room: &Room, waited: &mut Duration) -> bool {
        let (begun, limit) = (now(), self.node_limit().saturating_sub(*waited));
        let wait = room.wait(limit);
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
