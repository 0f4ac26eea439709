//! Vectorized checks of 64 subscriptions at a time, one implementation for each instruction set.
//!
//! # Safety
//! The checks for an instruction set require a CPU that supports it. A [`DetectedTier`] is constructed in one place,
//! after feature detection, and its field is private. So every tier that reaches `check` is supported.

#![allow(unsafe_code)]

use crate::index::code::event::Line;
use crate::index::rows::group::{Group, LANES};

#[macro_use]
mod kernel;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
pub(crate) mod prefetch;
mod scalar;

/// Instruction set of the checks. All give the same results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// Instructions that every CPU has.
    Scalar,
    /// 128-bit vectors of ARM.
    Neon,
    /// 256-bit vectors.
    Avx2,
    /// 512-bit vectors with byte permutations (AVX-512 F, BW and VBMI).
    Avx512,
}

impl Tier {
    /// The tiers that this CPU supports, the fastest last.
    #[must_use]
    pub fn available() -> Vec<Tier> {
        let all = [Tier::Scalar, Tier::Neon, Tier::Avx2, Tier::Avx512];
        all.into_iter().filter(|tier| tier.is_available()).collect()
    }

    fn is_available(self) -> bool {
        match self {
            Tier::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Tier::Avx2 => std::arch::is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Tier::Avx512 => {
                std::arch::is_x86_feature_detected!("avx512f")
                    && std::arch::is_x86_feature_detected!("avx512bw")
                    && std::arch::is_x86_feature_detected!("avx512vbmi")
            }
            #[cfg(target_arch = "aarch64")]
            Tier::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            #[allow(unreachable_patterns, reason = "those of other architectures")]
            _ => false,
        }
    }
}

/// A tier that this CPU supports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DetectedTier(Tier);

impl DetectedTier {
    /// The wanted tier if it is supported, otherwise the fastest one.
    pub(crate) fn new(wanted: Option<Tier>) -> DetectedTier {
        let best = Tier::available().pop().unwrap_or(Tier::Scalar);
        DetectedTier(wanted.filter(|tier| tier.is_available()).unwrap_or(best))
    }
}

/// Checks all rows of a group against all events, and calls `found` with the event and the row where all
/// conditions hold.
#[inline]
pub(crate) fn check(
    tier: DetectedTier,
    group: &Group,
    events: &[Line],
    found: &mut impl FnMut(usize, usize),
) {
    if group.stride() == 0 {
        // There are no conditions.
        for event in 0..events.len() {
            (0..group.ids.len()).for_each(|row| found(event, row));
        }
        return;
    }
    match tier.0 {
        // SAFETY: a chosen tier is supported by the processor.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx2 => unsafe {
            if group.tables & !avx2::one::TABLES == 0 {
                avx2::one::check(group, events, found);
            } else if group.tables & !avx2::two::TABLES == 0 {
                avx2::two::check(group, events, found);
            } else {
                avx2::four::check(group, events, found);
            }
        },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx512 => unsafe { avx512::check(group, events, found) },
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        Tier::Neon => unsafe { neon::check(group, events, found) },
        _ => scalar::check(group, events, found),
    }
}

/// The lanes of a block that hold a row.
#[inline(always)]
fn lanes(rows: usize, block: usize) -> u64 {
    match rows - block * LANES {
        left if left < LANES => (1 << left) - 1,
        _ => u64::MAX,
    }
}
