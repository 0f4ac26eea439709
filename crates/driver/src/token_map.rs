//! A map from tokens to the state of requests in flight, so that a request can be cancelled without a search.
//!
//! Callers number their requests from zero and reuse numbers, so the number can be an index: four entries share a cache
//! line, whereas a hash table would access two lines for each. Other numbers are stored in a hash table.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::Token;

/// Tokens below this number are always indices.
const MIN_DIRECT: u64 = 1024;

/// Values by [`Token`].
pub(crate) struct TokenMap<P> {
    /// By number. Its length is at most [`MIN_DIRECT`] plus twice the requests in flight.
    direct: Vec<Option<P>>,
    /// All other tokens.
    overflow: HashMap<Token, P, BuildHasherDefault<TokenHasher>>,
    count: u64,
}

impl<P: Copy> TokenMap<P> {
    pub(crate) fn new() -> TokenMap<P> {
        TokenMap { direct: Vec::new(), overflow: HashMap::default(), count: 0 }
    }

    #[inline]
    pub(crate) fn insert(&mut self, token: Token, value: P) {
        match self.overflow.is_empty().then(|| self.direct(token)).flatten() {
            Some(free @ None) => {
                *free = Some(value);
                self.count += 1;
            }
            _ => self.insert_rarely(token, value),
        }
    }

    /// Inserts a token that extends the vector, or that may be in the hash table.
    #[cold]
    fn insert_rarely(&mut self, token: Token, value: P) {
        assert!(self.get(token).is_none(), "{token:?} is already in flight");
        self.count += 1;
        if token.0 < MIN_DIRECT + 2 * self.count && token.0 >= self.direct.len() as u64 {
            self.direct.resize(token.0 as usize + 1, None);
        }
        match self.direct(token) {
            Some(direct) => *direct = Some(value),
            None => drop(self.overflow.insert(token, value)),
        }
    }

    pub(crate) fn remove(&mut self, token: Token) -> Option<P> {
        let entry = match self.direct(token).and_then(Option::take) {
            // It may have been inserted into the hash table before the vector grew.
            None if !self.overflow.is_empty() => self.overflow.remove(&token),
            entry => entry,
        };
        self.count -= u64::from(entry.is_some());
        entry
    }

    pub(crate) fn get(&self, token: Token) -> Option<P> {
        match usize::try_from(token.0).ok().and_then(|at| *self.direct.get(at)?) {
            None if !self.overflow.is_empty() => self.overflow.get(&token).copied(),
            entry => entry,
        }
    }

    fn direct(&mut self, token: Token) -> Option<&mut Option<P>> {
        self.direct.get_mut(usize::try_from(token.0).ok()?)
    }
}

/// A hash of one multiplication. Tokens are the caller's own numbers, so no attacker chooses them.
#[derive(Default)]
pub(crate) struct TokenHasher(u64);

impl Hasher for TokenHasher {
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

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Compared with a plain hash map: reused numbers, increasing numbers, and numbers of any size.
    #[test]
    fn all_numbers_are_found_and_memory_is_bounded() {
        let (mut tokens, mut known) = (TokenMap::new(), HashMap::new());
        let (mut seed, mut max_count) = (1_u64, 0);
        for round in 0..60_000_u64 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
            let token = Token(match round % 3 {
                0 => (seed >> 33) % 3000,
                1 => round,
                _ => u64::MAX - (seed >> 33) % 50,
            });
            let value = known.remove(&token);
            assert_eq!(tokens.get(token), value);
            assert_eq!(tokens.remove(token), value);
            if value.is_none() {
                tokens.insert(token, round);
                known.insert(token, round);
            }
            assert_eq!(tokens.get(token), known.get(&token).copied());
            let old = Token(round / 2);
            assert_eq!(tokens.remove(old), known.remove(&old));
            max_count = max_count.max(tokens.count);
            assert!(tokens.direct.len() as u64 <= MIN_DIRECT + 2 * max_count);
        }
        known.iter().for_each(|(token, value)| assert_eq!(tokens.get(*token), Some(*value)));
        assert_eq!(tokens.count, known.len() as u64);

        let mut tokens = TokenMap::new();
        for n in 0..10_000 {
            tokens.insert(Token(n), n);
            assert_eq!(tokens.remove(Token(n)), Some(n));
        }
        assert!(tokens.direct.len() as u64 <= MIN_DIRECT + 2 && tokens.overflow.is_empty());
    }

    #[test]
    #[should_panic = "already in flight"]
    fn a_token_names_one_request() {
        let mut tokens = TokenMap::new();
        tokens.insert(Token(u64::MAX), 1);
        tokens.insert(Token(u64::MAX), 2);
    }
}
