//! The periodic check of the lanes: closes those of lost nodes, and opens missing ones.

use std::rc::Rc;
use std::time::Duration;

use phalanx::shutdown::is_draining;
use phalanx::time::now;

use crate::cluster::node::Node;
use crate::cluster::serving::{self, SESSION_EXPIRY};

impl Node {
    /// Closes the lanes of lost nodes, and opens missing ones.
    pub(super) fn check_lanes(self: &Rc<Self>) {
        let others: Vec<_> = self.others.borrow().values().cloned().collect();
        let mut connected = 0;
        for other in others {
            let lane = other.lane.borrow().clone();
            if now().saturating_sub(other.last_hello.get()) > self.timeout {
                other.close("the node is not heard");
                if !other.is_busy.get() {
                    // The session for the node stays. A lane begins after the node's next hello.
                    self.others.borrow_mut().remove(&other.name);
                }
                continue;
            }
            if let Some(lane) = lane {
                if other.connection.get() != self.connections() {
                    // Messages outside the lane, such as claims, may be lost, too.
                    other.reset_claims();
                    other.close("the connection to NATS was lost");
                    // The other node has to know this one before the next lane begins.
                    self.send_hello();
                    continue;
                }
                lane.tick();
                self.exchange_members(&other, &lane);
                connected += i64::from(!lane.is_closed() && other.granted.borrow().is_none());
            }
            let is_due = self.name < other.name && now() >= other.next_try.get();
            if is_due && !is_draining() && self.client.is_connected() && other.try_begin() {
                let (own, of, control) = (self.clone(), other.clone(), self.context.stages.control);
                let opened = control.dispatch(move |_| async move {
                    serving::open(&own, &of).await;
                    of.release();
                });
                if opened.is_err() {
                    other.release();
                }
            }
        }
        self.peers.status.nodes.set(connected);
        self.peers.interest.announce_remaining();
        self.announce_own_members();
        self.continue_handovers();
        self.ending.retry();
        self.remove_expired_nodes();
    }

    /// Forgets the nodes whose sessions have expired.
    fn remove_expired_nodes(&self) {
        let expiry = Duration::from_secs(SESSION_EXPIRY.into());
        let is_known = |name: &str| name == &*self.name || self.others.borrow().contains_key(name);
        for name in self.peers.status.forget(now(), expiry, is_known) {
            self.sessions.borrow_mut().remove(&name);
            self.unsynced.borrow_mut().remove(&name);
            self.missed_since.borrow_mut().remove(&name);
        }
    }
}
