//! Where the request of a token is, so that it can be cancelled without a search.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::Token;

/// Places by [`Token`].
pub(crate) struct Tokens<P> {
    places: HashMap<Token, P, BuildHasherDefault<Mix>>,
}

impl<P: Copy> Tokens<P> {
    pub(crate) fn new() -> Tokens<P> {
        Tokens { places: HashMap::default() }
    }

    pub(crate) fn insert(&mut self, token: Token, place: P) {
        let before = self.places.insert(token, place);
        assert!(before.is_none(), "{token:?} is already in flight");
    }

    pub(crate) fn remove(&mut self, token: Token) -> Option<P> {
        self.places.remove(&token)
    }

    pub(crate) fn get(&self, token: Token) -> Option<P> {
        self.places.get(&token).copied()
    }
}

/// One multiplication: tokens are the caller's own numbers, no attacker chooses them.
#[derive(Default)]
pub(crate) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let wide = u128::from(self.0 ^ value) * u128::from(0x9E37_79B9_7F4A_7C15_u64);
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }
}
