//! Hashing: seeded for data that subscribers choose, unseeded for numbers that the index assigns.

use std::hash::{BuildHasher, DefaultHasher, Hasher};

/// SipHash whose first word is a seed. Subscribers choose texts and numbers, and must not be able to make them collide.
#[derive(Clone, Debug)]
pub(crate) struct Seeded(pub(crate) u64);

impl BuildHasher for Seeded {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.0);
        hasher
    }
}

/// Hash of numbers: a multiplication that includes the seed. It is far cheaper than SipHash, and colliding numbers are
/// hard to find without the seed.
#[derive(Clone, Debug)]
pub(crate) struct SeededNumbers(pub(crate) u64);

impl BuildHasher for SeededNumbers {
    type Hasher = MixHasher;

    fn build_hasher(&self) -> MixHasher {
        MixHasher(mix(u128::from(self.0)))
    }
}

/// Mixes a key of constant numbers into 64 bits.
pub(crate) fn mix(key: u128) -> u64 {
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        (product as u64) ^ (product >> 64) as u64
    };
    let low = fold(key as u64 ^ 0x9E37_79B9_7F4A_7C15, 0xD6E8_FEB8_6659_FD93);
    fold((key >> 64) as u64 ^ low, 0xA076_1D64_78BD_642F)
}

/// Hasher for tables whose keys are numbers of the index.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MixHasher(u64);

impl Hasher for MixHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = mix(u128::from(self.0) << 8 | u128::from(*byte));
        }
    }
    fn write_u32(&mut self, key: u32) {
        self.write_u128(key.into());
    }
    fn write_u64(&mut self, key: u64) {
        self.write_u128(key.into());
    }
    fn write_u128(&mut self, key: u128) {
        self.0 = mix(key ^ u128::from(self.0) << 32);
    }
    fn write_i128(&mut self, key: i128) {
        self.write_u128(key as u128);
    }
}

/// Builds [`MixHasher`].
pub(crate) type BuildMixHasher = std::hash::BuildHasherDefault<MixHasher>;
