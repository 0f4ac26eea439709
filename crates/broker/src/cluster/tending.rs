//! Tends the lanes at intervals: closes those of nodes that are gone, and opens missing ones.

use std::rc::Rc;
use std::time::Duration;

use phalanx::shutdown::is_draining;
use phalanx::time::now;

use crate::cluster::node::Node;
use crate::cluster::serving::{self, SESSION_EXPIRY};

impl Node {
    /// Closes the lanes of nodes that are gone, and opens missing ones.
    pub(super) fn tend(self: &Rc<Self>) {
        let others: Vec<_> = self.others.borrow().values().cloned().collect();
        let mut connected = 0;
        for other in others {
            let lane = other.lane.borrow().clone();
            if now().saturating_sub(other.heard.get()) > self.timeout {
                other.close("the node is not heard");
                if !other.is_busy.get() {
                    // The session for the node stays. A lane begins when the node is heard again.
                    self.others.borrow_mut().remove(&other.name);
                }
                continue;
            }
            if let Some(lane) = lane {
                if other.connection.get() != self.connections() {
                    // Messages outside the lane, such as claims, may be lost, too.
                    other.forget_claims();
                    other.close("the connection to NATS was lost");
                    // The other node has to know this one before the next lane begins.
                    self.say_hello();
                    continue;
                }
                lane.tick();
                self.tend_members(&other, &lane);
                connected += i64::from(!lane.is_closed() && other.granted.borrow().is_none());
            }
            let is_due = self.name < other.name && now() >= other.next_try.get();
            if is_due && !is_draining() && self.client.is_connected() && other.begins() {
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
        self.peers.interest.settle();
        self.tend_own_members();
        self.tend_handovers();
        self.ending.retry();
        self.forget();
    }

    /// Forgets the nodes whose sessions have expired.
    fn forget(&self) {
        let expiry = Duration::from_secs(SESSION_EXPIRY.into());
        let is_known = |name: &str| name == &*self.name || self.others.borrow().contains_key(name);
        for name in self.peers.status.forget(now(), expiry, is_known) {
            self.sessions.borrow_mut().remove(&name);
            self.unsynced.borrow_mut().remove(&name);
            self.unheard.borrow_mut().remove(&name);
        }
    }
}
