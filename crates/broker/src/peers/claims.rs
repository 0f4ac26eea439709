//! Client identifiers that connected here. A client with the same identifier at another node is disconnected.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use phalanx::sync::oneshot;
use serde::{Deserialize, Serialize};

use super::lock::lock;

/// Maximum number of claims that wait to be sent, and of those that are remembered.
const MAX_CLAIMS: usize = 64 * 1024;

/// A client connected to a node. The later claim is right; of two at the same time, that of the greater node name.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Claim {
    /// Milliseconds since 1970.
    pub(crate) at: u64,
    pub(crate) node: String,
    pub(crate) client: String,
}

/// The claims of this node.
#[derive(Default)]
pub(crate) struct Claims(Mutex<State>);

#[derive(Default)]
struct State {
    new: Vec<(Arc<str>, u64)>,
    /// The last claims, the latest last.
    last: HashMap<Arc<str>, u64>,
    order: VecDeque<(Arc<str>, u64)>,
    wake: Option<oneshot::Sender<()>>,
}

impl Claims {
    /// A client connected here at this time since 1970. Returns false if too many claims wait, so that this one is not
    /// sent.
    pub(crate) fn add(&self, client: &Arc<str>, at: Duration) -> bool {
        let at = at.as_millis() as u64;
        let mut state = lock(&self.0);
        state.last.insert(client.clone(), at);
        state.order.push_back((client.clone(), at));
        if state.order.len() > MAX_CLAIMS
            && let Some((client, at)) = state.order.pop_front()
            && state.last.get(&client) == Some(&at)
        {
            state.last.remove(&client);
        }
        if state.new.len() >= MAX_CLAIMS {
            return false;
        }
        state.new.push((client.clone(), at));
        if let Some(wake) = state.wake.take() {
            wake.send(());
        }
        true
    }

    /// Takes up to `most` claims that were not sent.
    pub(crate) fn take(&self, most: usize) -> Vec<(Arc<str>, u64)> {
        let mut state = lock(&self.0);
        let count = most.min(state.new.len());
        state.new.drain(..count).collect()
    }

    /// Completes when there are claims. Called before [`take`](Self::take).
    pub(crate) fn changed(&self) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::shared();
        lock(&self.0).wake = Some(sender);
        receiver
    }

    /// Whether the claim of another node is right, so that the client here has to go.
    pub(crate) fn yields_to(&self, claim: &Claim, own: &str) -> bool {
        let state = lock(&self.0);
        let here = state.last.get(claim.client.as_str());
        here.is_none_or(|at| (*at, own) < (claim.at, claim.node.as_str()))
    }
}
