//! Claims: each announces that a client connected to this node. Other nodes disconnect clients with the same identifier
//! and user.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use phalanx::sync::oneshot;
use serde::{Deserialize, Serialize};

use crate::access::Identity;
use crate::lock::lock;

/// Maximum number of claims that wait to be sent, and of remembered claims.
const MAX_CLAIMS: usize = 64 * 1024;

/// The claim that a client connected to a node. Of two claims for a client, the later one wins; at the same time, the one
/// of the greater node name.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Claim {
    /// Microseconds since 1970.
    pub(crate) at: u64,
    pub(crate) node: String,
    /// Identifies the start of the node; empty if an earlier version sent the claim.
    #[serde(default)]
    pub(crate) start: String,
    pub(crate) client: String,
    /// `None` for an anonymous client.
    pub(crate) user: Option<String>,
    /// The number of the claim message to all nodes; 0 if the claim is repeated, or if an earlier version sent it.
    #[serde(default)]
    pub(crate) number: u64,
}

impl Claim {
    /// The client that connected.
    pub(crate) fn identity(&self) -> Identity {
        Identity { user: self.user.as_deref().map(Arc::from), client: self.client.as_str().into() }
    }
}

/// The claims of this node.
#[derive(Default)]
pub(crate) struct Claims(Mutex<State>);

#[derive(Default)]
struct State {
    new: Vec<(Identity, u64)>,
    /// The time of the last claim of each client. `order` has the claims in order, with their times on the runtime's
    /// clock.
    last: HashMap<Identity, u64>,
    /// The last claims of clients whose sessions were given to another node. These claims are not repeated.
    withdrawn: HashMap<Identity, u64>,
    order: VecDeque<(Identity, u64, Duration)>,
    /// The time of the latest claim of any node.
    latest: u64,
    wake: Option<oneshot::Sender<()>>,
}

impl Claims {
    /// Adds the claim of a client that connected here, at this time since 1970 and on the runtime's clock. Returns false
    /// if too many claims wait; this one is then not sent.
    pub(crate) fn add(&self, client: &Identity, day: Duration, now: Duration) -> bool {
        let mut state = lock(&self.0);
        // Later than every known claim, even if the clock of another node is ahead.
        let at = (day.as_micros() as u64).max(state.latest.saturating_add(1));
        state.latest = at;
        state.last.insert(client.clone(), at);
        state.withdrawn.remove(client);
        state.order.push_back((client.clone(), at, now));
        if state.order.len() > MAX_CLAIMS
            && let Some((client, at, _)) = state.order.pop_front()
        {
            let State { last, withdrawn, .. } = &mut *state;
            for claims in [last, withdrawn] {
                if claims.get(&client) == Some(&at) {
                    claims.remove(&client);
                }
            }
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

    /// The time of the latest known claim.
    pub(crate) fn latest(&self) -> u64 {
        lock(&self.0).latest
    }

    /// Ensures that the next claim here is later than `latest`, which another node knows.
    pub(crate) fn advance(&self, latest: u64) {
        let mut state = lock(&self.0);
        state.latest = state.latest.max(latest);
    }

    /// Stops sending and repeating the claim of a client whose session was given to another node.
    pub(crate) fn withdraw(&self, client: &Identity) {
        let mut state = lock(&self.0);
        if let Some(at) = state.last.remove(client) {
            state.withdrawn.insert(client.clone(), at);
        }
        state.new.retain(|(known, _)| known != client);
    }

    /// Takes up to `max_count` unsent claims with up to `max_bytes` of names, but at least one if there is any.
    pub(crate) fn take(&self, max_count: usize, max_bytes: usize) -> Vec<(Identity, u64)> {
        let mut state = lock(&self.0);
        let count = count_fitting(state.new.iter().map(|claim| &claim.0), max_count, max_bytes);
        state.new.drain(..count).collect()
    }

    /// The remembered claims made since `begin`, on the runtime's clock, except those for which another node has a later
    /// claim.
    pub(crate) fn since(&self, begin: Duration) -> Vec<(Identity, u64)> {
        let state = lock(&self.0);
        let is_current = |(client, at, now): &&(Identity, u64, Duration)| {
            *now >= begin && state.last.get(client) == Some(at)
        };
        let current = state.order.iter().filter(is_current);
        current.map(|(client, at, _)| (client.clone(), *at)).collect()
    }

    /// Completes when there are claims. Called before [`take`](Self::take).
    pub(crate) fn changed(&self) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::shared();
        lock(&self.0).wake = Some(sender);
        receiver
    }

    /// Yields to the claim of another node if that claim wins. Returns whether it does: the client here then has to be
    /// disconnected.
    pub(crate) fn yield_to(&self, claim: &Claim, own: &str) -> bool {
        let mut state = lock(&self.0);
        state.latest = state.latest.max(claim.at);
        // A claim for another user neither ends this user's session nor stops its claim.
        let client = claim.identity();
        let here = state.last.get(&client).or_else(|| state.withdrawn.get(&client));
        let yields = here.is_none_or(|at| (*at, own) < (claim.at, claim.node.as_str()));
        if yields {
            // This node's claim must not be repeated, because the other node may have forgotten its later claim.
            state.last.remove(&client);
            state.withdrawn.remove(&client);
        }
        yields
    }
}

/// Counts the clients at the front that fit: up to `max_count`, with up to `max_bytes` of names, but at least one.
pub(crate) fn count_fitting<'a>(
    clients: impl Iterator<Item = &'a Identity>,
    max_count: usize,
    max_bytes: usize,
) -> usize {
    let mut bytes = 0;
    let is_within = |identity: &&Identity| {
        let is_first = bytes == 0;
        bytes += identity.client.len() + identity.user.as_deref().map_or(0, str::len);
        is_first || bytes <= max_bytes
    };
    clients.take(max_count).take_while(is_within).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(name: &str, user: Option<&str>) -> Identity {
        Identity { user: user.map(Arc::from), client: name.into() }
    }

    fn claim(at: u64, user: Option<&str>) -> Claim {
        Claim {
            at,
            node: "b".into(),
            start: String::new(),
            client: "c".into(),
            user: user.map(str::to_owned),
            number: 0,
        }
    }

    fn micros(number: u64) -> Duration {
        Duration::from_micros(number)
    }

    #[test]
    fn the_later_of_two_claims_wins() {
        let (claims, client) = (Claims::default(), client("c", None));
        let claim = |at| claim(at, None);
        assert!(claims.add(&client, micros(5), micros(5)));
        assert!(!claims.yield_to(&claim(4), "a"));
        // The clock of the other node is ahead, and the client returns.
        assert!(claims.yield_to(&claim(1000), "a"));
        assert!(claims.add(&client, micros(6), micros(6)));
        assert!(!claims.yield_to(&claim(1000), "a"));
        assert_eq!(claims.take(1, 100), [(client.clone(), 5)]);
        assert!(claims.add(&client, micros(7), micros(7)));
        assert_eq!(claims.take(100, 1), [(client.clone(), 1001)], "limited by bytes");
    }

    #[test]
    fn claims_are_repeated_until_another_one_is_later() {
        let claims = Claims::default();
        let [c, d] = ["c", "d"].map(|name| client(name, Some("eve")));
        for (client, at) in [(&c, 5), (&d, 6), (&c, 7)] {
            claims.add(client, micros(at), micros(at));
        }
        assert_eq!(claims.since(micros(0)), [(d.clone(), 6), (c.clone(), 7)]);
        assert_eq!(claims.since(micros(7)), [(c, 7)]);
        assert!(claims.yield_to(&claim(8, Some("eve")), "a"));
        assert_eq!(claims.since(micros(0)), [(d, 6)]);
    }

    #[test]
    fn the_claim_of_a_client_that_moved_is_not_repeated() {
        let (claims, client) = (Claims::default(), client("c", None));
        claims.add(&client, micros(5), micros(5));
        claims.withdraw(&client);
        assert!(claims.take(1, 100).is_empty() && claims.since(micros(0)).is_empty());
        // A delayed claim of an earlier node does not end the copy here.
        assert!(!claims.yield_to(&claim(4, None), "a"));
        claims.advance(7);
        assert_eq!(claims.latest(), 7);
        assert!(claims.yield_to(&claim(8, None), "a"));
        claims.add(&client, micros(6), micros(6));
        assert_eq!(claims.take(1, 100), [(client, 9)], "later than all known ones");
    }

    #[test]
    fn steps_of_the_time_of_day_hide_no_claim() {
        let claims = Claims::default();
        let [c, d, e] = ["c", "d", "e"].map(|name| client(name, None));
        for (client, day, now) in [(&c, 5000, 5), (&d, 1000, 6), (&e, 9000, 7)] {
            claims.add(client, micros(day), micros(now));
        }
        assert_eq!(claims.since(micros(6)), [(d, 5001), (e, 9000)]);
    }

    #[test]
    fn a_claim_of_another_user_does_not_stop_that_of_a_client() {
        let (claims, eves) = (Claims::default(), client("c", Some("eve")));
        claims.add(&eves, micros(5), micros(5));
        for user in [Some("mallory"), None] {
            claims.yield_to(&claim(8, user), "a");
            assert_eq!(claims.since(micros(0)), [(eves.clone(), 5)], "{user:?}");
        }
    }

    #[test]
    fn users_count_towards_the_size_of_a_message() {
        let all = ["a", "b", "c"].map(|name| client(name, Some("eve")));
        assert_eq!(count_fitting(all.iter(), 3, 0), 1, "at least one");
        assert_eq!(count_fitting(all.iter(), 3, 8), 2);
        assert_eq!(count_fitting(all.iter(), 3, 11), 2);
    }
}
