//! The checks in 256-bit vectors: 32 lanes at a time.
//!
//! The instructions look a byte up in a table of 16, so an event's 64 codes are four tables. Most groups name
//! no slot beyond the first 32, and do with two.
//!
//! # Safety
//! The only unsafe calls load half a [`Line`]: 32 bytes, or 16 of it, from within its 64.

#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m256i, _mm_load_si128, _mm256_adds_epu8, _mm256_broadcastsi128_si256, _mm256_cmpeq_epi8,
    _mm256_load_si256, _mm256_min_epu8, _mm256_movemask_epi8, _mm256_or_si256, _mm256_set1_epi8,
    _mm256_shuffle_epi8, _mm256_sub_epi8,
};

use super::lanes;
use crate::index::event::Line;
use crate::index::group::{Group, LANES};

/// 32 of a line's bytes, the first or the second.
#[inline]
#[target_feature(enable = "avx2")]
fn half(line: &Line, second: bool) -> __m256i {
    let bytes: &[u8; 32] = line.0[32 * usize::from(second)..].first_chunk().expect("64 bytes");
    // SAFETY: 32 bytes within a line, which is aligned to 64.
    unsafe { _mm256_load_si256(bytes.as_ptr().cast()) }
}

/// The 16 codes from `16 * at` on, twice.
#[inline]
#[target_feature(enable = "avx2")]
fn table(line: &Line, at: usize) -> __m256i {
    let bytes: &[u8; 16] = line.0[16 * at..].first_chunk().expect("64 bytes");
    // SAFETY: 16 bytes within a line, which is aligned to 64.
    _mm256_broadcastsi128_si256(unsafe { _mm_load_si128(bytes.as_ptr().cast()) })
}

/// For each table, the slots as places in it; those of other tables have their high bit set, which makes
/// the look-up give nothing.
#[inline]
#[target_feature(enable = "avx2")]
fn places<const TABLES: usize>(slots: __m256i) -> [__m256i; TABLES] {
    let mut places = [slots; TABLES];
    for (at, place) in places.iter_mut().enumerate() {
        let from = _mm256_sub_epi8(slots, _mm256_set1_epi8(16 * at as i8));
        *place = _mm256_adds_epu8(from, _mm256_set1_epi8(0x70));
    }
    places
}

/// The event's codes at these places.
#[inline]
#[target_feature(enable = "avx2")]
fn codes<const TABLES: usize>(event: &Line, places: &[__m256i; TABLES]) -> __m256i {
    let mut codes = _mm256_shuffle_epi8(table(event, 0), places[0]);
    for (at, places) in places.iter().enumerate().skip(1) {
        codes = _mm256_or_si256(codes, _mm256_shuffle_epi8(table(event, at), *places));
    }
    codes
}

#[inline]
#[target_feature(enable = "avx2")]
fn equal_by<const TABLES: usize, const N: usize>(
    slots: &Line,
    wanted: &Line,
    events: &[Line; N],
    masks: &mut [u64; N],
) {
    let (low, high) = (half(slots, false), half(slots, true));
    let (low, high) = (places::<TABLES>(low), places::<TABLES>(high));
    let (low_wanted, high_wanted) = (half(wanted, false), half(wanted, true));
    for (event, mask) in events.iter().zip(masks) {
        let low = _mm256_cmpeq_epi8(codes(event, &low), low_wanted);
        let high = _mm256_cmpeq_epi8(codes(event, &high), high_wanted);
        *mask &= bits(low, high);
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn range_by<const TABLES: usize, const N: usize>(
    slots: &Line,
    lows: &Line,
    widths: &Line,
    events: &[Line; N],
    masks: &mut [u64; N],
) {
    let (low, high) = (half(slots, false), half(slots, true));
    let (low, high) = (places::<TABLES>(low), places::<TABLES>(high));
    let within = |codes, from, width| {
        let above = _mm256_sub_epi8(codes, from);
        _mm256_cmpeq_epi8(_mm256_min_epu8(above, width), above)
    };
    let (low_from, high_from) = (half(lows, false), half(lows, true));
    let (low_width, high_width) = (half(widths, false), half(widths, true));
    for (event, mask) in events.iter().zip(masks) {
        let low = within(codes(event, &low), low_from, low_width);
        let high = within(codes(event, &high), high_from, high_width);
        *mask &= bits(low, high);
    }
}

/// A bit for each lane.
#[inline]
#[target_feature(enable = "avx2")]
fn bits(low: __m256i, high: __m256i) -> u64 {
    let bits = |half| u64::from(_mm256_movemask_epi8(half) as u32);
    bits(low) | bits(high) << 32
}

/// For groups that name slots below 32 only.
pub(super) mod two {
    use super::*;

    kernel!("avx2", equal_by::<2, _>, range_by::<2, _>);
}

/// For all.
pub(super) mod four {
    use super::*;

    kernel!("avx2", equal_by::<4, _>, range_by::<4, _>);
}
