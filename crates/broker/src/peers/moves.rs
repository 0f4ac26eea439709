//! The sessions that are moving from or to this node, and those that were given to another node.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use phalanx::time::now;

use crate::access::Identity;
use crate::lock::lock;
use crate::model::client_key::ClientKey;
use crate::peers::claims::count_fitting;

/// Maximum number of sessions that one question to the other nodes concerns.
const MAX_CLIENTS: usize = 1000;

/// Maximum bytes of the client identifiers and users in one question, which has to fit into one NATS message.
const MAX_CLIENT_BYTES: usize = 64 * 1024;

/// Maximum number of remembered sessions whose copy at this node has ended.
const MAX_ENDED: usize = 64 * 1024;

/// The moves of this node's sessions.
#[derive(Default)]
pub(crate) struct Moves(Mutex<State>);

#[derive(Default)]
struct State {
    /// This node's session of each move whose marks the router has to deliver, by token.
    sessions: BTreeMap<Arc<str>, ClientKey>,
    /// The sessions that were given to another node, with the time and the token of the move.
    given: HashMap<Identity, (Duration, Arc<str>)>,
    /// For given sessions whose copy has ended: when, and after how many moves. `order` has the oldest first.
    ended: HashMap<Identity, (Duration, u32)>,
    order: VecDeque<(Duration, Identity)>,
}

impl Moves {
    /// Records that a session leaves or arrives.
    pub(crate) fn begin(&self, token: &Arc<str>, session: ClientKey) {
        lock(&self.0).sessions.insert(token.clone(), session);
    }

    /// Records that the router need not know the move any more.
    pub(crate) fn end(&self, token: &str) {
        lock(&self.0).sessions.remove(token);
    }

    /// This node's session of the move with this token.
    pub(crate) fn session(&self, token: &str) -> Option<ClientKey> {
        lock(&self.0).sessions.get(token).copied()
    }

    /// Adds the session of a client that was given to another node by this move, at this time.
    pub(crate) fn add_given(&self, client: Identity, token: Arc<str>, at: Duration) {
        lock(&self.0).given.insert(client, (at, token));
    }

    /// Adds a given session whose copy has ended, after this number of moves.
    pub(crate) fn add_ended(&self, client: Identity, moves: u32) {
        let mut state = lock(&self.0);
        state.given.remove(&client);
        state.order.push_back((now(), client.clone()));
        state.ended.insert(client, (now(), moves));
        while state.order.len() > MAX_ENDED
            && let Some((at, client)) = state.order.pop_front()
        {
            if state.ended.get(&client).is_some_and(|(last, _)| *last == at) {
                state.ended.remove(&client);
            }
        }
    }

    /// The number of moves of a given session whose copy has ended since this time. Without it, no node would report the
    /// session if a question reached the new node before the session arrived, and this node after its copy had ended.
    pub(crate) fn ended_since(&self, client: &Identity, time: Duration) -> Option<u32> {
        let state = lock(&self.0);
        state.ended.get(client).filter(|(at, _)| *at >= time).map(|(_, moves)| *moves)
    }

    /// Removes a session that belongs to this node again, or has ended.
    pub(crate) fn remove_given(&self, client: &Identity) {
        lock(&self.0).given.remove(client);
    }

    /// Clients whose sessions were given before this time, oldest first, with the tokens; as many as one question can contain.
    pub(crate) fn given_before(&self, time: Duration) -> Vec<(Identity, Arc<str>)> {
        let mut all: Vec<_> = {
            let state = lock(&self.0);
            let old = state.given.iter().filter(|(_, (since, _))| *since <= time);
            old.map(|(client, (since, token))| (*since, client.clone(), token.clone())).collect()
        };
        all.sort_by(|(a, one, _), (b, other, _)| (a, &one.client).cmp(&(b, &other.client)));
        let count =
            count_fitting(all.iter().map(|(_, client, _)| client), MAX_CLIENTS, MAX_CLIENT_BYTES);
        all.into_iter().take(count).map(|(_, client, token)| (client, token)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node may start with sessions that it gave.
    #[test]
    fn given_sessions_are_known_before_the_program_runs() {
        let (moves, client) =
            (Moves::default(), |client: &str| Identity { user: None, client: client.into() });
        let at = Duration::from_secs;
        moves.add_given(client("b"), "2".into(), at(0));
        moves.add_given(client("a"), "1".into(), at(0));
        moves.add_given(client("c"), "3".into(), at(5));
        let before = |time| -> Vec<_> {
            moves.given_before(at(time)).into_iter().map(|(_, token)| token.to_string()).collect()
        };
        assert_eq!((before(0), before(5).len()), (vec!["1".into(), "2".into()], 3));
        moves.remove_given(&client("a"));
        assert_eq!(before(4), ["2"]);
    }
}
