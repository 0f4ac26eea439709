//! Banned clients, users and addresses.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Maximum number of bans.
const MAX_BANS: usize = 10_000;

/// The target of a ban.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Banned {
    /// A client identifier.
    Client(String),
    /// A user name.
    User(String),
    /// An address.
    Address(IpAddr),
}

/// The current bans, kept in memory.
#[derive(Default)]
pub(crate) struct Bans {
    /// Whether there may be a ban. Without one, a check costs one atomic load.
    any: AtomicBool,
    /// The end of each ban, on the runtime's clock; `None` for no end.
    ends: Mutex<HashMap<Banned, Option<Duration>>>,
}

impl Bans {
    /// Adds a ban at `now`, for a time or until the broker ends. A time beyond the range of the clock means no end.
    /// Returns false if there are too many bans.
    pub(crate) fn add(&self, banned: Banned, time: Option<Duration>, now: Duration) -> bool {
        let mut ends = self.ends();
        ends.retain(|_, end| end.is_none_or(|end| end > now));
        if ends.len() >= MAX_BANS && !ends.contains_key(&banned) {
            return false;
        }
        ends.insert(banned, time.and_then(|time| now.checked_add(time)));
        self.any.store(true, Ordering::Relaxed);
        true
    }

    /// Ends a ban. Returns whether it existed.
    pub(crate) fn remove(&self, banned: &Banned) -> bool {
        let mut ends = self.ends();
        let was_there = ends.remove(banned).is_some();
        self.any.store(!ends.is_empty(), Ordering::Relaxed);
        was_there
    }

    /// Whether a ban applies to this client at `now`, according to the names and the address that are known.
    pub(crate) fn is_banned(
        &self,
        (client, user): (Option<&str>, Option<&str>),
        address: Option<IpAddr>,
        now: Duration,
    ) -> bool {
        if !self.any.load(Ordering::Relaxed) {
            return false;
        }
        let ends = self.ends();
        let is_banned =
            |banned: Banned| ends.get(&banned).is_some_and(|end| end.is_none_or(|end| end > now));
        client.is_some_and(|client| is_banned(Banned::Client(client.to_owned())))
            || user.is_some_and(|user| is_banned(Banned::User(user.to_owned())))
            || address.is_some_and(|address| is_banned(Banned::Address(address.to_canonical())))
    }

    /// All bans at `now`, with the seconds that are left.
    pub(crate) fn list(&self, now: Duration) -> Vec<(Banned, Option<u64>)> {
        let ends = self.ends();
        let current = ends.iter().filter(|(_, end)| end.is_none_or(|end| end > now));
        current.map(|(ban, end)| (ban.clone(), end.map(|end| (end - now).as_secs()))).collect()
    }

    fn ends(&self) -> MutexGuard<'_, HashMap<Banned, Option<Duration>>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bans_end() {
        let (bans, at) = (Bans::default(), Duration::from_secs);
        let address: IpAddr = "::ffff:192.0.2.1".parse().unwrap();
        assert!(bans.add(Banned::Address("192.0.2.1".parse().unwrap()), Some(at(10)), at(5)));
        assert!(bans.add(Banned::User("eve".into()), None, at(5)));
        assert!(bans.is_banned((None, None), Some(address), at(14)));
        assert!(!bans.is_banned((Some("c"), Some("adam")), Some(address), at(15)));
        assert!(bans.is_banned((Some("c"), Some("eve")), None, at(1_000_000)));
        assert_eq!(bans.list(at(14)).len(), 2);
        assert!(bans.add(Banned::User("adam".into()), Some(Duration::MAX), at(5)));
        assert!(bans.list(at(14)).contains(&(Banned::User("adam".into()), None)));
        assert!(
            bans.remove(&Banned::User("eve".into()))
                && !bans.is_banned((Some("c"), Some("eve")), None, at(6))
        );
    }
}
