//! Reproducible random numbers (xorshift).

/// A sequence that its seed, which is not 0, determines.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// The next number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_one_sequence() {
        let numbers = |seed| {
            let mut random = Random(seed);
            std::array::from_fn::<_, 8, _>(|_| random.below(1000))
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
        assert!(numbers(7).iter().all(|number| *number < 1000));
    }
}
