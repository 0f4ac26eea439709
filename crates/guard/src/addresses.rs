//! Open connections and request rates per client address, in a table of fixed size for the whole program.
//!
//! The counts are exact over all processors. The table has shards, each under a lock held for a dozen
//! instructions per connection or request; without limits there is no table. The rate of an address is stored
//! as one timestamp (the generic cell rate algorithm, a form of token bucket): the time at which its requests
//! so far are paid for. An entry whose timestamp has passed and that has no connections carries no
//! information, so evicting it loses nothing. An address without room in the table is not limited; that takes
//! some sixty thousand other active addresses, to which `max_connections` applies together.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Shards: more than processors, so that lock contention is rare.
const SHARDS: usize = 64;
/// Sets per shard.
const SETS: usize = 128;
/// Entries per set. An address may be in any entry of its set.
const WAYS: usize = 8;

/// Hash of an address, with a key unknown to clients. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressKey(u64);

impl AddressKey {
    /// Creates a key from the hash of an address.
    pub fn new(hash: u64) -> Self {
        Self(hash.max(1))
    }
}

/// Identifies a client: by its address, or for IPv6 by its /64 network, within which it can choose addresses.
pub fn client(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        // No network has a zero prefix except loopback.
        IpAddr::V6(address) => (address.to_bits() >> 64) as u64 | 1 << 63,
    }
}

/// The network of a [`client`]: /24 for IPv4, /48 for IPv6. Its addresses usually belong to one organization.
pub fn network(client: u64) -> u64 {
    match client >> 63 {
        0 => client >> 8,
        _ => client >> 16 | 1 << 63,
    }
}

/// Limits per address.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounds {
    /// Concurrent connections.
    pub connections: Option<u32>,
    /// Requests per second.
    pub per_second: Option<f64>,
    /// Requests allowed in a burst above that rate.
    pub burst: u32,
}

/// The table of addresses.
pub struct Addresses {
    shards: Box<[Mutex<Shard>]>,
    /// Concurrent connections per address.
    max_open: u32,
    /// Cost of a request in nanoseconds, and how far ahead of the clock an address may be.
    rate: Option<(u64, u64)>,
}

struct Shard {
    sets: Box<[Set]>,
    /// The latest time of a call. Each processor reads the clock once for many operations, so a call may pass an earlier
    /// time than the one before, and counts as one at that time.
    latest: Duration,
}

type Set = [Slot; WAYS];

/// Entry of an address.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// Zero if the entry is empty.
    key: u64,
    /// Time at which the requests so far are paid for, in nanoseconds.
    paid_until: u64,
    /// Open connections.
    open: u32,
}

/// A connection of an address, counted until it is dropped.
pub struct Open {
    table: Arc<Addresses>,
    key: AddressKey,
    counted: bool,
}

impl Addresses {
    /// Creates a table for these limits; `None` if there are none.
    pub fn new(bounds: Bounds) -> Option<Arc<Self>> {
        if bounds.connections.is_none() && bounds.per_second.is_none() {
            return None;
        }
        let rate = bounds.per_second.map(|rate| {
            let cost = (1e9 / rate) as u64;
            (cost, cost.saturating_mul(u64::from(bounds.burst)))
        });
        let shard = || Shard {
            sets: vec![Set::default(); SETS].into_boxed_slice(),
            latest: Duration::ZERO,
        };
        Some(Arc::new(Self {
            shards: (0..SHARDS).map(|_| Mutex::new(shard())).collect(),
            max_open: bounds.connections.unwrap_or(u32::MAX),
            rate,
        }))
    }

    /// Counts a connection. Returns `None` if the address has reached its limit.
    pub fn open(self: &Arc<Self>, key: AddressKey, now: Duration) -> Option<Open> {
        let counted = match self.with(key, now, |slot, _| {
            let is_admitted = slot.open < self.max_open;
            slot.open += u32::from(is_admitted);
            is_admitted
        }) {
            Some(false) => return None,
            Some(true) => true,
            None => false,
        };
        Some(Open { table: self.clone(), key, counted })
    }

    /// Counts a request of an address, which need not have a connection.
    ///
    /// # Errors
    /// If the address exceeds its rate: the time until the next request is admitted.
    pub fn request(&self, key: AddressKey, now: Duration) -> Result<(), Duration> {
        let Some((cost, ahead)) = self.rate else { return Ok(()) };
        let admitted = self.with(key, now, |slot, now| {
            let now_ns = now.as_nanos() as u64;
            let paid_until = slot.paid_until.max(now_ns);
            let excess = (paid_until - now_ns).saturating_sub(ahead);
            if excess > 0 {
                return Err(Duration::from_nanos(excess));
            }
            slot.paid_until = paid_until + cost;
            Ok(())
        });
        admitted.unwrap_or(Ok(()))
    }

    /// Calls `f` with the entry of the address and the time. Returns `None` if there is no room for it.
    fn with<R>(
        &self,
        key: AddressKey,
        now: Duration,
        f: impl FnOnce(&mut Slot, Duration) -> R,
    ) -> Option<R> {
        let (mut shard, set) = self.set(key);
        let now = now.max(shard.latest);
        shard.latest = now;
        let set = &mut shard.sets[set];
        let at = match set.iter().position(|slot| slot.key == key.0) {
            Some(at) => at,
            None => {
                let free = (0..WAYS).filter(|at| set[*at].open == 0);
                let at = free.min_by_key(|at| set[*at].paid_until)?;
                set[at] = Slot { key: key.0, paid_until: now.as_nanos() as u64, open: 0 };
                at
            }
        };
        Some(f(&mut set[at], now))
    }

    fn set(&self, key: AddressKey) -> (MutexGuard<'_, Shard>, usize) {
        let shard = &self.shards[key.0 as usize % SHARDS];
        // Nothing under the lock can panic.
        let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        (shard, key.0 as usize / SHARDS % SETS)
    }
}

impl Open {
    /// Whether the connection is counted in this table.
    pub fn is_in(&self, table: &Arc<Addresses>) -> bool {
        Arc::ptr_eq(&self.table, table)
    }

    /// Counts a request.
    ///
    /// # Errors
    /// If the address exceeds its rate: the time until the next request is admitted.
    pub fn request(&self, now: Duration) -> Result<(), Duration> {
        self.table.request(self.key, now)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.counted {
            return;
        }
        let (mut shard, set) = self.table.set(self.key);
        // An entry with open connections is never evicted.
        if let Some(slot) = shard.sets[set].iter_mut().find(|slot| slot.key == self.key.0) {
            slot.open -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn table(connections: Option<u32>, rate: Option<f64>, burst: u32) -> Arc<Addresses> {
        Addresses::new(Bounds { connections, per_second: rate, burst }).unwrap()
    }

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn connections_are_limited() {
        let table = table(Some(2), None, 0);
        let (one, other) = (AddressKey::new(5), AddressKey::new(6));
        let first = table.open(one, at(0)).unwrap();
        let second = table.open(one, at(0)).unwrap();
        assert!(table.open(one, at(9)).is_none());
        assert!(table.open(other, at(9)).is_some(), "another address is another");
        drop(first);
        let third = table.open(one, at(9)).unwrap();
        assert!(table.open(one, at(9)).is_none());
        drop((second, third));
        assert!(table.open(one, at(9)).is_some());
    }

    #[test]
    fn a_burst_and_then_the_rate() {
        let table = table(None, Some(10.0), 2);
        let open = table.open(AddressKey::new(7), at(1000)).unwrap();
        for _ in 0..3 {
            assert_eq!(open.request(at(1000)), Ok(()), "one, and two beyond");
        }
        assert_eq!(open.request(at(1000)), Err(at(100)));
        assert_eq!(open.request(at(1040)), Err(at(60)), "asking costs nothing");
        assert_eq!(open.request(at(1100)), Ok(()));
        assert_eq!(open.request(at(1100)), Err(at(100)));
        for _ in 0..3 {
            assert_eq!(open.request(at(9000)), Ok(()), "after a rest, the burst again");
        }
        assert_eq!(open.request(at(9000)), Err(at(100)));
    }

    /// A request on one processor and one on another, whose clock was read earlier.
    #[test]
    fn times_may_go_back() {
        let table = table(None, Some(10.0), 1);
        let key = AddressKey::new(7);
        assert_eq!(table.request(key, at(1000)), Ok(()));
        assert_eq!(table.request(key, at(999)), Ok(()), "the burst");
        assert_eq!(table.request(key, at(999)), Err(at(100)));
    }

    /// Only entries without information are evicted.
    #[test]
    fn a_full_set_keeps_limited_addresses() {
        let table = table(Some(9), Some(1.0), 0);
        // All in one set.
        let key = |n: u64| AddressKey::new((n + 1) * (SHARDS * SETS) as u64 + 3);
        let limited = table.open(key(0), at(0)).unwrap();
        limited.request(at(0)).unwrap();
        drop(limited);
        for n in 1..100 {
            drop(table.open(key(n), at(0)));
        }
        let reopened = table.open(key(0), at(10)).unwrap();
        assert!(reopened.request(at(10)).is_err(), "still known");
        // While all entries have open connections, other addresses are admitted without being counted.
        let open: Vec<_> = (1..8).map(|n| table.open(key(n), at(10)).unwrap()).collect();
        assert!(open.iter().all(|open| open.counted));
        let another = table.open(key(50), at(10)).unwrap();
        assert!(!another.counted);
        assert_eq!((another.request(at(10)), another.request(at(10))), (Ok(()), Ok(())));
        drop((open, another));
        assert!(table.open(key(50), at(10)).unwrap().counted);
    }

    /// Behaves like an unbounded map as long as the addresses fit.
    #[test]
    fn counts_like_a_map() {
        let table = table(Some(3), Some(2.0), 1);
        let mut random = 88172645463325252u64;
        let mut draw = |bound: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % bound
        };
        let mut model: HashMap<u64, Vec<Open>> = HashMap::new();
        let mut tokens: HashMap<u64, (f64, u64)> = HashMap::new();
        let mut now = 0;
        for _ in 0..20_000 {
            let address = draw(40);
            let open = model.entry(address).or_default();
            match draw(3) {
                0 => {
                    let key = AddressKey::new((address + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
                    let opened = table.open(key, at(now));
                    assert_eq!(opened.is_some(), open.len() < 3);
                    open.extend(opened);
                }
                1 => drop(open.pop()),
                _ => {
                    if let Some(open) = open.first() {
                        let (previous, since) = tokens.get(&address).copied().unwrap_or((2.0, now));
                        let available =
                            f64::min(2.0, previous + (now - since) as f64 * 2.0 / 1000.0);
                        let admitted = open.request(at(now));
                        assert_eq!(
                            admitted.is_ok(),
                            available >= 1.0 - 1e-9,
                            "{available} at {now}"
                        );
                        let available = if admitted.is_ok() { available - 1.0 } else { available };
                        tokens.insert(address, (available, now));
                    }
                }
            }
            now += draw(50);
        }
    }

    #[test]
    fn clients_by_their_networks() {
        let key_of = |text: &str| client(text.parse().unwrap());
        assert_ne!(key_of("10.0.0.1"), key_of("10.0.0.2"));
        assert_eq!(key_of("10.0.0.1"), key_of("::ffff:10.0.0.1"));
        assert_eq!(key_of("2001:db8::1"), key_of("2001:db8::ffff:1"));
        assert_ne!(key_of("2001:db8:0:1::1"), key_of("2001:db8:0:2::1"));
        assert_ne!(key_of("::1"), key_of("0.0.0.0"));
        let key_of = |text: &str| network(client(text.parse().unwrap()));
        assert_eq!(key_of("10.0.0.1"), key_of("10.0.0.255"));
        assert_ne!(key_of("10.0.0.1"), key_of("10.0.1.1"));
        assert_eq!(key_of("2001:db8:1:1::1"), key_of("2001:db8:1:ffff::1"));
        assert_ne!(key_of("2001:db8:1::1"), key_of("2001:db8:2::1"));
        assert_ne!(key_of("::1"), key_of("0.0.0.0"));
    }
}
