//! Client identifiers that connected here. A client with the same identifier at another node is disconnected.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use phalanx::sync::oneshot;
use serde::{Deserialize, Serialize};

use crate::lock::lock;

/// Maximum number of claims that wait to be sent, and of those that are remembered.
const MAX_CLAIMS: usize = 64 * 1024;

/// A client connected to a node. The later claim is right; of two at the same time, that of the greater node name.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Claim {
    /// Microseconds since 1970.
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
    /// The latest time of a claim, also of those of other nodes.
    latest: u64,
    wake: Option<oneshot::Sender<()>>,
}

impl Claims {
    /// A client connected here at this time since 1970. Returns false if too many claims wait, so that this one is not
    /// sent.
    pub(crate) fn add(&self, client: &Arc<str>, at: Duration) -> bool {
        let mut state = lock(&self.0);
        // Later than what is known, even if the clock of another node is ahead.
        let at = (at.as_micros() as u64).max(state.latest.saturating_add(1));
        state.latest = at;
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

    /// Takes claims that were not sent: up to `most`, and up to one beyond `most_bytes` of client identifiers.
    pub(crate) fn take(&self, most: usize, most_bytes: usize) -> Vec<(Arc<str>, u64)> {
        let mut state = lock(&self.0);
        let count = fitting(&state.new, most, most_bytes);
        state.new.drain(..count).collect()
    }

    /// The remembered claims from a time on, unless another node has a later one.
    pub(crate) fn since(&self, at: u64) -> Vec<(Arc<str>, u64)> {
        let state = lock(&self.0);
        let is_right =
            |(client, own): &&(Arc<str>, u64)| *own >= at && state.last.get(client) == Some(own);
        state.order.iter().filter(is_right).cloned().collect()
    }

    /// Completes when there are claims. Called before [`take`](Self::take).
    pub(crate) fn changed(&self) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::shared();
        lock(&self.0).wake = Some(sender);
        receiver
    }

    /// Whether the claim of another node is right, so that the client here has to go.
    pub(crate) fn yields_to(&self, claim: &Claim, own: &str) -> bool {
        let mut state = lock(&self.0);
        state.latest = state.latest.max(claim.at);
        let here = state.last.get(claim.client.as_str());
        let yields = here.is_none_or(|at| (*at, own) < (claim.at, claim.node.as_str()));
        if yields {
            // It must not be repeated: the other node may have forgotten its claim.
            state.last.remove(claim.client.as_str());
        }
        yields
    }
}

/// The number of the first claims that fit: up to `most`, and up to one beyond `most_bytes` of client identifiers.
pub(crate) fn fitting(claims: &[(Arc<str>, u64)], most: usize, most_bytes: usize) -> usize {
    let mut bytes = 0;
    let is_within = |(client, _): &&(Arc<str>, u64)| {
        let is_within = bytes < most_bytes;
        bytes += client.len();
        is_within
    };
    claims.iter().take(most).take_while(is_within).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_later_of_two_claims_is_right() {
        let (claims, client) = (Claims::default(), Arc::from("c"));
        let claim = |at| Claim { at, node: "b".into(), client: "c".into() };
        assert!(claims.add(&client, Duration::from_micros(5)));
        assert!(!claims.yields_to(&claim(4), "a"));
        // The clock of the other node is ahead, and the client returns.
        assert!(claims.yields_to(&claim(1000), "a"));
        assert!(claims.add(&client, Duration::from_micros(6)));
        assert!(!claims.yields_to(&claim(1000), "a"));
        assert_eq!(claims.take(1, 100), [(client.clone(), 5)]);
        assert!(claims.add(&client, Duration::from_micros(7)));
        assert_eq!(claims.take(100, 1), [(client.clone(), 1001)], "limited by bytes");
    }

    #[test]
    fn claims_are_repeated_until_another_one_is_later() {
        let claims = Claims::default();
        let [c, d]: [Arc<str>; 2] = ["c", "d"].map(Arc::from);
        for (client, at) in [(&c, 5), (&d, 6), (&c, 7)] {
            claims.add(client, Duration::from_micros(at));
        }
        assert_eq!(claims.since(0), [(d.clone(), 6), (c.clone(), 7)]);
        assert_eq!(claims.since(7), [(c, 7)]);
        let later = Claim { at: 8, node: "b".into(), client: "c".into() };
        assert!(claims.yields_to(&later, "a"));
        assert_eq!(claims.since(0), [(d, 6)]);
    }
}
