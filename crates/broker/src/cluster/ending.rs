//! Ends the sessions of clients that connected to another node. If the broker is too busy, a session ends later.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use phalanx::shutdown::is_draining;
use phalanx::{CallError, sleep};
use phalanx_mqtt::Reason;

use crate::context::Context;
use crate::events::drops::{DropReason, Dropped};
use crate::peers::{Claim, Peers};
use crate::session::operations::RETRY_DELAY;

/// Maximum number of claims that wait for capacity. Further claims are dropped and counted.
const MAX_WAITING: usize = 64 * 1024;

/// Ends sessions because of the claims of other nodes.
pub(super) struct Ending {
    context: Context,
    peers: Arc<Peers>,
    /// This node.
    name: Arc<str>,
    waiting: RefCell<VecDeque<Claim>>,
}

impl Ending {
    pub(super) fn new(context: Context, peers: Arc<Peers>, name: Arc<str>) -> Rc<Self> {
        Rc::new(Self { context, peers, name, waiting: RefCell::default() })
    }

    /// Ends the session of a claim's client, unless the client connected here later.
    pub(super) fn end(self: &Rc<Self>, claim: Claim) {
        if !self.peers.claims.yield_to(&claim, &self.name) || self.start(&claim) {
            return;
        }
        let mut waiting = self.waiting.borrow_mut();
        match waiting.len() < MAX_WAITING {
            true => waiting.push_back(claim),
            false => {
                let drops = &self.context.counters.drops;
                drops.add(DropReason::ClusterClaim, 1, Dropped::default);
            }
        }
    }

    /// Retries the claims that wait for capacity.
    pub(super) fn retry(self: &Rc<Self>) {
        let mut waiting = self.waiting.take();
        while let Some(claim) = waiting.front()
            && (!self.peers.claims.yield_to(claim, &self.name) || self.start(claim))
        {
            waiting.pop_front();
        }
        self.waiting.replace(waiting);
    }

    /// Starts an operation that ends the session. Returns false if the processor is full.
    fn start(self: &Rc<Self>, claim: &Claim) -> bool {
        let (own, claim, stages) = (self.clone(), claim.clone(), self.context.stages);
        let started = stages.control.dispatch(move |_| async move {
            while own.peers.claims.yield_to(&claim, &own.name) && !is_draining() {
                let (client, reason) = (claim.identity(), Reason::SESSION_TAKEN_OVER);
                let ended = stages.sessions.end_session_of(client, reason, stages.routing).await;
                if !matches!(ended, Err(CallError::Full { .. })) {
                    return;
                }
                sleep(RETRY_DELAY).await;
            }
        });
        started.is_ok()
    }
}
