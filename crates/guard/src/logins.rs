//! A fair queue of password checks, with lockout.
//!
//! A password check takes tens of milliseconds by design, so a few hundred wrong passwords would delay all
//! logins by seconds. Three rules protect clients with the right password:
//!
//! - A login that succeeded before, with the same password from the same address, comes first and is never
//!   locked out. An attacker cannot imitate it.
//! - All other logins are queued by address, and the addresses take turns. Addresses without failures come
//!   first, except at every fourth turn, and of these the addresses of networks without failures, except at
//!   another fourth turn. Of an address with failures, the newest login comes first, because the older ones are
//!   likely to be wrong.
//! - Every second turn goes to the address that has begun to wait last. An attacker with many addresses therefore
//!   delays a client by a few checks, as long as fewer than half as many new addresses arrive as passwords are
//!   checked. Otherwise the client may have to try again.
//! - A user name with [`PAIR_FAILURES`] failures from one address is locked out there, for a second that
//!   doubles up to a minute; so is an address with [`CLIENT_FAILURES`] failures. Other addresses are not
//!   affected.
//!
//! All state is bounded, and expires ten minutes after the last failure.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::failures::{Failures, Threshold};

/// Failures of a user name from one address after which it is locked out there.
pub const PAIR_FAILURES: u32 = 10;

/// Failures of an address, with any user names, after which it is locked out.
pub const CLIENT_FAILURES: u32 = 100;

/// Queued logins that succeeded before, and separately queued other logins.
const MAX_WAITING: usize = 1000;

/// Queued logins of an address with failures. Above this, its oldest logins are refused.
const MAX_WAITING_FAILED: usize = 64;

/// Remembered valid logins.
const MAX_REMEMBERED: usize = 8192;

/// A login's user and address, hashed with a key unknown to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Login {
    /// Hash of the address's [network](crate::network).
    pub network: u64,
    /// Hash of the address.
    pub client: u64,
    /// Hash of the address and the user name.
    pub pair: u64,
    /// Hash of the address, the user name and the password.
    pub secret: u64,
}

/// Reason for refusing a login without checking its password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The queue is full.
    Busy,
    /// The address, or this user name from it, has failed too often. Contains the time until the next login is checked.
    LockedOut(Duration),
}

/// Queue of logins, each with an item of the server.
#[derive(Debug)]
pub struct Logins<T>(Mutex<State<T>>);

#[derive(Debug)]
struct State<T> {
    known: VecDeque<(Login, T)>,
    /// Other logins by address.
    clients: BTreeMap<u64, Client<T>>,
    /// Number of the address that begins to wait next.
    next: u64,
    /// Logins in all of these.
    waiting: usize,
    /// The address that had the last turn, and the number of turns.
    last: u64,
    turns: u64,
    /// Successful logins, and the order in which they were added.
    valid: HashSet<u64>,
    order: VecDeque<u64>,
    failures: Failures,
}

/// Logins of an address; never empty.
#[derive(Debug)]
struct Client<T> {
    network: u64,
    /// The order in which addresses have begun to wait.
    number: u64,
    logins: VecDeque<(Login, T)>,
}

/// Reputation of an address, the best first.
#[derive(Clone, Copy, PartialEq)]
enum Reputation {
    /// Its network has no failures.
    Clean,
    /// Other addresses of its network have failed.
    Neighbours,
    Failed,
}

impl<T> Default for Logins<T> {
    fn default() -> Self {
        Self(Mutex::new(State {
            known: VecDeque::new(),
            clients: BTreeMap::new(),
            next: 0,
            waiting: 0,
            last: 0,
            turns: 0,
            valid: HashSet::new(),
            order: VecDeque::new(),
            failures: Failures::default(),
        }))
    }
}

impl<T> Logins<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a login. Returns the logins refused for it: this one, or others that it replaces.
    pub fn enqueue(&self, login: Login, item: T, now: Duration) -> Vec<(T, Refusal)> {
        let state = &mut *self.state();
        if state.valid.contains(&login.secret) {
            if state.known.len() >= MAX_WAITING {
                return vec![(item, Refusal::Busy)];
            }
            state.known.push_back((login, item));
            return Vec::new();
        }
        if let Some(remaining) = state.lockout(login, now) {
            return vec![(item, Refusal::LockedOut(remaining))];
        }
        let has_failed = state.failures.has_failed(login.client, now);
        let (network, number) = (login.network, state.next);
        state.next += 1;
        let new_client = || Client { network, number, logins: VecDeque::new() };
        let queue = &mut state.clients.entry(login.client).or_insert_with(new_client).logins;
        queue.push_back((login, item));
        state.waiting += 1;
        let max = if has_failed { MAX_WAITING_FAILED } else { MAX_WAITING };
        let mut refused = Vec::new();
        while queue.len() > max {
            refused.extend(queue.pop_front());
        }
        state.waiting -= refused.len();
        if state.waiting > MAX_WAITING {
            refused.extend(state.pop_from_longest());
        }
        refused.into_iter().map(|(_, item)| (item, Refusal::Busy)).collect()
    }

    /// Takes the next login to check.
    pub fn next(&self, now: Duration) -> Option<(Login, T)> {
        let state = &mut *self.state();
        state.turns += 1;
        // Every eighth turn goes to the others, so that known clients cannot starve them.
        if !state.known.is_empty() && (state.clients.is_empty() || !state.turns.is_multiple_of(8)) {
            return state.known.pop_front();
        }
        let (client, reputation) = state.next_address(now)?;
        state.last = client;
        let queue = &mut state.clients.get_mut(&client)?.logins;
        let next = match reputation {
            Reputation::Failed => queue.pop_back(),
            Reputation::Clean | Reputation::Neighbours => queue.pop_front(),
        };
        if queue.is_empty() {
            state.clients.remove(&client);
        }
        state.waiting -= usize::from(next.is_some());
        next
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        let state = self.state();
        state.known.is_empty() && state.clients.is_empty()
    }

    /// Records the result of a check. Returns the logins that it locks out.
    pub fn record_result(&self, login: Login, is_valid: bool, now: Duration) -> Vec<(T, Refusal)> {
        let state = &mut *self.state();
        if is_valid {
            state.failures.clear(login.pair);
            state.remember(login.secret);
            return Vec::new();
        }
        state.valid.remove(&login.secret);
        state.failures.record(login.pair, now);
        state.failures.record(login.client, now);
        state.failures.record(login.network, now);
        let is_out = state.lockout(login, now).is_some();
        let removed = if is_out { state.clients.remove(&login.client) } else { None };
        let Some(removed) = removed else { return Vec::new() };
        let (mut refused, mut rest) = (Vec::new(), VecDeque::new());
        for (login, item) in removed.logins {
            match state.lockout(login, now) {
                Some(remaining) => refused.push((item, Refusal::LockedOut(remaining))),
                None => rest.push_back((login, item)),
            }
        }
        state.waiting -= refused.len();
        if !rest.is_empty() {
            state.clients.insert(login.client, Client { logins: rest, ..removed });
        }
        refused
    }

    /// Records the result of a check that needed no queue. Also returns the queued logins that it locks out.
    ///
    /// # Errors
    /// [`Refusal::LockedOut`]: the result was not recorded, and must not be revealed.
    pub fn record_verified(
        &self,
        login: Login,
        is_valid: bool,
        now: Duration,
    ) -> (Result<(), Refusal>, Vec<(T, Refusal)>) {
        let state = self.state();
        let lockout = state.lockout(login, now).filter(|_| !state.valid.contains(&login.secret));
        drop(state);
        match lockout {
            Some(remaining) => (Err(Refusal::LockedOut(remaining)), Vec::new()),
            None => (Ok(()), self.record_result(login, is_valid, now)),
        }
    }
}

impl<T> State<T> {
    /// The rest of a lockout; `None` without one.
    fn lockout(&self, login: Login, now: Duration) -> Option<Duration> {
        let lockout = |key, most| self.failures.lockout(key, Threshold(most), now);
        lockout(login.pair, PAIR_FAILURES).max(lockout(login.client, CLIENT_FAILURES))
    }

    /// The address that has the next turn.
    fn next_address(&self, now: Duration) -> Option<(u64, Reputation)> {
        use Reputation::{Clean, Failed, Neighbours};
        let order = match self.turns % 4 {
            0 => [Failed, Clean, Neighbours],
            2 => [Neighbours, Clean, Failed],
            _ => [Clean, Neighbours, Failed],
        };
        let after = self.clients.range(self.last.saturating_add(1)..);
        let in_turn = after.chain(self.clients.range(..=self.last));
        let all: Vec<_> = in_turn
            .map(|(key, client)| (*key, self.reputation(*key, client.network, now), client.number))
            .collect();
        order.into_iter().find_map(|reputation| {
            let mut candidates = all.iter().filter(|(_, found, _)| *found == reputation);
            let next = match reputation {
                Clean | Neighbours if !self.turns.is_multiple_of(2) => {
                    candidates.max_by_key(|(_, _, number)| *number)
                }
                _ => candidates.next(),
            };
            next.map(|(key, found, _)| (*key, *found))
        })
    }

    fn reputation(&self, client: u64, network: u64, now: Duration) -> Reputation {
        if self.failures.has_failed(client, now) {
            Reputation::Failed
        } else if self.failures.has_failed(network, now) {
            Reputation::Neighbours
        } else {
            Reputation::Clean
        }
    }

    /// Removes the oldest login of the address with the longest queue, of several the one that has waited longest.
    fn pop_from_longest(&mut self) -> Option<(Login, T)> {
        let by_length = |entry: &Client<T>| (entry.logins.len(), Reverse(entry.number));
        let (client, entry) = self.clients.iter_mut().max_by_key(|(_, entry)| by_length(entry))?;
        let (client, removed) = (*client, entry.logins.pop_front());
        if entry.logins.is_empty() {
            self.clients.remove(&client);
        }
        self.waiting -= usize::from(removed.is_some());
        removed
    }

    fn remember(&mut self, secret: u64) {
        if !self.valid.insert(secret) {
            return;
        }
        self.order.push_back(secret);
        // Some of these may have been removed since.
        if self.order.len() > MAX_REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.valid.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(5);
    const LOCKED_OUT: Refusal = Refusal::LockedOut(Duration::from_secs(1));

    /// Ten clients share a network.
    fn network_of(client: u64) -> u64 {
        u64::MAX - client / 10
    }

    fn login(client: u64, user: u64, password: u64) -> Login {
        let pair = client << 32 | user << 16;
        Login { network: network_of(client), client, pair, secret: pair | password }
    }

    fn enqueue<T>(logins: &Logins<T>, login: Login, item: T) {
        assert!(logins.enqueue(login, item, NOW).is_empty());
    }

    #[test]
    fn known_logins_come_first() {
        let logins = Logins::default();
        logins.record_result(login(1, 1, 7), true, NOW);
        (0..400).for_each(|n| enqueue(&logins, login(1, 1, 100 + n), n));
        enqueue(&logins, login(1, 1, 7), 1000);
        assert_eq!(logins.next(NOW).unwrap().1, 1000);
        assert_eq!(logins.next(NOW).unwrap().1, 0);
        // With another password the login is unknown.
        logins.record_result(login(1, 1, 7), false, NOW);
        drop(logins.enqueue(login(1, 1, 7), 1001, NOW));
        assert_eq!(logins.state().known.len(), 0);
    }

    #[test]
    fn addresses_take_turns_and_those_with_failures_come_last() {
        let logins = Logins::default();
        (0..50).for_each(|n| enqueue(&logins, login(1, n, n), n));
        (50..53).for_each(|n| enqueue(&logins, login(2, n, n), n));
        let next = || logins.next(NOW).unwrap().1;
        // Every second turn goes to the address that came last, the others to each in turn.
        assert_eq!([(); 6].map(|()| next()), [50, 0, 51, 1, 52, 2]);
        logins.record_result(login(1, 0, 0), false, NOW);
        (60..66).for_each(|n| enqueue(&logins, login(2, n, n), n));
        // They get every fourth turn, newest first.
        assert_eq!([(); 6].map(|()| next()), [60, 49, 61, 62, 63, 48]);
    }

    #[test]
    fn a_new_address_does_not_wait_for_many_others() {
        let logins = Logins::default();
        // The order of the addresses is that of the numbers, and the last comes last.
        (1..=400).for_each(|client| enqueue(&logins, login(client, 1, 1), client));
        enqueue(&logins, login(9999, 1, 1), 9999);
        assert_eq!(logins.next(NOW).unwrap().1, 9999);
        // Also if others arrive behind it, more slowly than passwords are checked.
        enqueue(&logins, login(9999, 1, 1), 9999);
        let turns = (500..510).flat_map(|client| {
            enqueue(&logins, login(client, 1, 1), client);
            [(); 4].map(|()| logins.next(NOW).unwrap().1)
        });
        assert!(turns.take_while(|next| *next != 9999).count() < 4);
    }

    #[test]
    fn networks_with_failures_come_later() {
        let logins = Logins::default();
        logins.record_result(login(11, 1, 1), false, NOW);
        enqueue(&logins, login(500, 1, 1), 500);
        (12..20).for_each(|client| enqueue(&logins, login(client, 1, 1), client));
        assert_eq!(logins.next(NOW).unwrap().1, 500, "although the others are newer");
        enqueue(&logins, login(501, 1, 1), 501);
        enqueue(&logins, login(502, 1, 1), 502);
        // Every fourth turn is theirs.
        assert_eq!([(); 3].map(|()| logins.next(NOW).unwrap().1), [12, 502, 501]);
    }

    #[test]
    fn a_name_is_locked_out_at_one_address() {
        let logins = Logins::default();
        (0..30).for_each(|n| enqueue(&logins, login(1, 1, 100 + n), n));
        enqueue(&logins, login(1, 2, 1), 50);
        let mut refused = Vec::new();
        // The other name, which is the newest, fails once.
        for _ in 0..PAIR_FAILURES + 1 {
            assert!(refused.is_empty());
            let (login, _) = logins.next(NOW).unwrap();
            refused = logins.record_result(login, false, NOW);
        }
        assert!(refused.iter().all(|(item, refusal)| *item < 30 && *refusal == LOCKED_OUT));
        assert_eq!(refused.len() as u32, 30 - PAIR_FAILURES);
        assert_eq!(logins.enqueue(login(1, 1, 1), 60, NOW), [(60, LOCKED_OUT)]);
        enqueue(&logins, login(2, 1, 1), 61);
        assert_eq!(logins.next(NOW).unwrap().1, 61, "another address is not concerned");
        assert!(logins.enqueue(login(1, 1, 1), 62, NOW + Duration::from_secs(5)).is_empty());
    }

    #[test]
    fn known_logins_are_not_locked_out() {
        let logins = Logins::default();
        logins.record_result(login(1, 1, 7), true, NOW);
        for n in 0..2 * u64::from(CLIENT_FAILURES) {
            logins.record_result(login(1, 1, 100 + n), false, NOW);
        }
        let longest = Refusal::LockedOut(Duration::from_secs(60));
        assert_eq!(logins.enqueue(login(1, 2, 1), 0, NOW), [(0, longest)], "the address");
        assert!(logins.enqueue(login(1, 1, 7), 1, NOW).is_empty());
    }

    #[test]
    fn checks_without_a_queue_are_locked_out_as_well() {
        let logins = Logins::default();
        enqueue(&logins, login(1, 1, 100), 100);
        assert_eq!(logins.record_verified(login(1, 1, 7), true, NOW), (Ok(()), Vec::new()));
        let mut refused = Vec::new();
        for n in 0..u64::from(PAIR_FAILURES) {
            assert!(refused.is_empty());
            let recorded;
            (recorded, refused) = logins.record_verified(login(1, 1, 200 + n), false, NOW);
            assert_eq!(recorded, Ok(()));
        }
        assert_eq!(refused, [(100, LOCKED_OUT)]);
        for (password, expected) in [(8, Err(LOCKED_OUT)), (7, Ok(()))] {
            let (found, _) = logins.record_verified(login(1, 1, password), true, NOW);
            assert_eq!(found, expected, "{password}");
        }
    }

    #[test]
    fn the_queue_is_bounded() {
        let logins = Logins::default();
        (0..2000).for_each(|n| drop(logins.enqueue(login(n % 3, n, 1), n, NOW)));
        assert_eq!(logins.state().waiting, MAX_WAITING);
        logins.record_result(login(9, 9, 9), false, NOW);
        (0..100).for_each(|n| drop(logins.enqueue(login(9, 10 + n, 1), n, NOW)));
        assert_eq!(logins.state().clients[&9].logins.len(), MAX_WAITING_FAILED);
        let mut left = 0;
        while logins.next(NOW).is_some() {
            left += 1;
        }
        assert_eq!((left, logins.is_empty()), (MAX_WAITING, true));
        (0..3 * MAX_REMEMBERED as u64)
            .for_each(|n| drop(logins.record_result(login(1, n, n), true, NOW)));
        assert_eq!(logins.state().valid.len(), MAX_REMEMBERED);
    }
}
