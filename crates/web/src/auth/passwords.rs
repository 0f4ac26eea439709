//! Password verification with a cache of verified credentials.
//!
//! The cache contains keyed hashes (HMAC-SHA-256) instead of credentials. The key is random and drawn
//! whenever a file is read. A memory dump therefore does not reveal passwords, and a client cannot compute
//! the hashes, so the time of a lookup reveals nothing. Failed attempts are not cached; each costs a full
//! verification.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use phalanx_access::Htpasswd;
use ring::hmac;
use ring::rand::SystemRandom;

use crate::auth::credentials::Credentials;

/// Time for which verified credentials stay valid without another verification. A reload discards
/// them if the file has changed.
const CACHE_TTL: Duration = Duration::from_secs(300);
/// Cached credentials per file. Above this, the oldest entry is evicted.
const CACHE_ENTRIES: usize = 1024;

/// The passwords of one file.
pub(crate) struct Passwords {
    /// Unique among all values, including dropped ones.
    id: u64,
    users: Htpasswd,
    /// Key of the cache; `None` if the system has no randomness, which disables the cache.
    key: Option<hmac::Key>,
    /// Verified credentials with their expiry times.
    known: Mutex<HashMap<Tag, Duration>>,
}

type Tag = [u8; 32];

impl Passwords {
    pub(crate) fn new(users: Htpasswd) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).ok();
        Self { id, users, key, known: Mutex::default() }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Whether both files have the same users.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.users == other.users
    }

    /// Whether the credentials are in the cache and have not expired.
    pub(crate) fn is_cached(&self, credentials: &Credentials, now: Duration) -> bool {
        let Some(tag) = self.tag(credentials) else { return false };
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&tag).is_some_and(|until| now < *until)
    }

    /// Verifies the credentials. Takes tens of milliseconds unless they are cached.
    pub(crate) fn verify(&self, credentials: &Credentials, now: Duration) -> bool {
        // Another thread may just have verified them, because browsers send several requests at once.
        if self.is_cached(credentials, now) {
            return true;
        }
        let right = self.users.verify(credentials.name(), credentials.password());
        if right && let Some(tag) = self.tag(credentials) {
            self.cache(tag, now);
        }
        right
    }

    fn cache(&self, tag: Tag, now: Duration) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= CACHE_ENTRIES {
            known.retain(|_, until| now < *until);
        }
        if known.len() >= CACHE_ENTRIES
            && let Some(first) = known.iter().min_by_key(|(_, until)| **until)
        {
            let first = *first.0;
            known.remove(&first);
        }
        known.insert(tag, now + CACHE_TTL);
    }

    fn tag(&self, credentials: &Credentials) -> Option<Tag> {
        let tag = hmac::sign(self.key.as_ref()?, credentials.as_bytes());
        tag.as_ref().try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passwords() -> Passwords {
        // The password is "b".
        let line = "a:$2y$04$L4Fh0NN61XBvJ/sHDckBXuvFs1DAFBy9t0CWc1Vw4tbStH0R7hkIq";
        Passwords::new(Htpasswd::parse(line.as_bytes()).ok().unwrap())
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn verified_credentials_are_cached() {
        let passwords = passwords();
        let right = Credentials::parse(b"Basic YTpi").unwrap();
        let wrong = Credentials::parse(b"Basic YTpj").unwrap();
        assert!(!passwords.is_cached(&right, at(0)));
        assert!(passwords.verify(&right, at(0)) && !passwords.verify(&wrong, at(0)));
        assert!(passwords.is_cached(&right, at(299)) && !passwords.is_cached(&wrong, at(0)));
        assert!(!passwords.is_cached(&right, at(300)));
        assert!(!self::passwords().is_cached(&right, at(0)), "another file, another key");
    }

    #[test]
    fn the_cache_is_bounded() {
        let passwords = passwords();
        for n in 0..CACHE_ENTRIES as u64 + 5 {
            let mut tag = [0; 32];
            tag[..8].copy_from_slice(&n.to_le_bytes());
            passwords.cache(tag, at(n / 100));
        }
        let known = passwords.known.lock().unwrap();
        assert_eq!(known.len(), CACHE_ENTRIES);
        let last = (CACHE_ENTRIES as u64 + 4) / 100;
        assert!(known.values().any(|until| *until == at(last) + CACHE_TTL), "the newest stays");
    }
}
