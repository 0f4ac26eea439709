//! The checks in 256-bit vectors: 32 lanes at a time.
//!
//! The instruction set looks bytes up in tables of 16, so the 64 codes of an event are four tables. Equality
//! slots are numbered from the front and order slots from the back, so the conditions of most groups need
//! only the first or the last two tables, or one of them.
//!
//! # Safety
//! The only unsafe calls load 32 or 16 bytes from within the 64 bytes of a [`Line`].

#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m256i, _mm_load_si128, _mm256_adds_epu8, _mm256_and_si256, _mm256_blendv_epi8,
    _mm256_broadcastsi128_si256, _mm256_cmpeq_epi8, _mm256_load_si256, _mm256_min_epu8,
    _mm256_movemask_epi8, _mm256_or_si256, _mm256_set1_epi8, _mm256_shuffle_epi8,
    _mm256_slli_epi16, _mm256_sub_epi8, _mm256_testz_si256,
};

use super::lanes;
use crate::index::code::event::Line;
use crate::index::rows::group::{Group, LANES};

/// One half of a line: 32 bytes.
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

/// The tables of an event in which a condition is looked up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Front,
    Back,
}

/// Slots prepared for lookups in an event's tables.
#[derive(Clone, Copy)]
struct Places<const TABLES: usize> {
    slots: __m256i,
    /// For two tables: the high bit selects the second.
    second: __m256i,
    /// For four tables: the slots as indices into each. Slots of other tables have the high bit set, so their
    /// lookup yields zero.
    each: [__m256i; TABLES],
}

#[inline]
#[target_feature(enable = "avx2")]
fn places<const TABLES: usize>(slots: __m256i) -> Places<TABLES> {
    let mut places = Places { slots, second: _mm256_slli_epi16(slots, 3), each: [slots; TABLES] };
    if TABLES > 2 {
        for (at, place) in places.each.iter_mut().enumerate() {
            let from = _mm256_sub_epi8(slots, _mm256_set1_epi8(16 * at as i8));
            *place = _mm256_adds_epu8(from, _mm256_set1_epi8(0x70));
        }
    }
    places
}

/// The event's codes in these slots. A lookup reads only the low four bits of an index.
#[inline]
#[target_feature(enable = "avx2")]
fn codes<const TABLES: usize>(tables: &[__m256i; TABLES], places: &Places<TABLES>) -> __m256i {
    let first = _mm256_shuffle_epi8(tables[0], places.slots);
    match TABLES {
        1 => first,
        2 => {
            let second = _mm256_shuffle_epi8(tables[1], places.slots);
            _mm256_blendv_epi8(first, second, places.second)
        }
        _ => {
            let mut codes = _mm256_shuffle_epi8(tables[0], places.each[0]);
            // Not an iterator: a closure that is not inlined would be compiled without these instructions.
            let mut at = 1;
            while at < TABLES {
                codes = _mm256_or_si256(codes, _mm256_shuffle_epi8(tables[at], places.each[at]));
                at += 1;
            }
            codes
        }
    }
}

/// All ones in the remaining lanes, for both halves of a block.
type Left = [__m256i; 2];

/// Keeps the lanes in which the event's code satisfies a condition. The lines are slots and the operands of
/// `within`.
#[inline]
#[target_feature(enable = "avx2")]
fn narrow<const TABLES: usize, const N: usize>(
    end: End,
    slots: &Line,
    events: &[Line; N],
    left: &mut [Left; N],
    within: impl Fn(__m256i, bool) -> __m256i,
) {
    let places = [places::<TABLES>(half(slots, false)), places::<TABLES>(half(slots, true))];
    for (event, left) in events.iter().zip(left) {
        let mut tables = [half(slots, false); TABLES];
        let first = if end == End::Front { 0 } else { 4 - TABLES };
        for (at, of) in tables.iter_mut().enumerate() {
            *of = table(event, first + at);
        }
        for (at, left) in left.iter_mut().enumerate() {
            let holds = within(codes(&tables, &places[at]), at == 1);
            *left = _mm256_and_si256(*left, holds);
        }
    }
}

/// For each event, the lanes in which all conditions of a block hold.
#[inline]
#[target_feature(enable = "avx2")]
fn masks<const TABLES: usize, const N: usize>(
    block: &[Line],
    equals: usize,
    events: &[Line; N],
    valid: u64,
) -> [u64; N] {
    let (equals, ranges) = block.split_at(2 * equals);
    let mut left = [[_mm256_set1_epi8(-1); 2]; N];
    let mut checked = 0;
    for condition in equals.chunks_exact(2) {
        let wanted = &condition[1];
        narrow::<TABLES, N>(End::Front, &condition[0], events, &mut left, |codes, second| {
            _mm256_cmpeq_epi8(codes, half(wanted, second))
        });
        checked += 1;
        if checked >= 2 && is_empty(&left) {
            return [0; N];
        }
    }
    for condition in ranges.chunks_exact(3) {
        let (lows, widths) = (&condition[1], &condition[2]);
        narrow::<TABLES, N>(End::Back, &condition[0], events, &mut left, |codes, second| {
            let above = _mm256_sub_epi8(codes, half(lows, second));
            _mm256_cmpeq_epi8(_mm256_min_epu8(above, half(widths, second)), above)
        });
        checked += 1;
        if checked >= 2 && is_empty(&left) {
            return [0; N];
        }
    }
    left.map(|[low, high]| bits(low, high) & valid)
}

/// Whether no lane remains for any event. Two conditions exclude nearly all lanes of most blocks; after a single
/// condition the test does not pay off.
#[inline]
#[target_feature(enable = "avx2")]
fn is_empty<const N: usize>(left: &[Left; N]) -> bool {
    let mut any = _mm256_or_si256(left[0][0], left[0][1]);
    for [low, high] in &left[1..] {
        any = _mm256_or_si256(any, _mm256_or_si256(*low, *high));
    }
    _mm256_testz_si256(any, any) == 1
}

/// One bit per lane.
#[inline]
#[target_feature(enable = "avx2")]
fn bits(low: __m256i, high: __m256i) -> u64 {
    let bits = |half| u64::from(_mm256_movemask_epi8(half) as u32);
    bits(low) | bits(high) << 32
}

// Two events at a time: the remaining lanes of more do not fit into 16 registers.

/// For groups whose equalities use only the first 16 slots, and whose ranges use only the last 16.
pub(super) mod one {
    use super::*;

    /// Tables in use, as in [`Group::tables`].
    pub(in crate::simd) const TABLES: u8 = 0b1000_0001;

    kernel!("avx2", 2, masks::<1, _>);
}

/// For groups that use the first and the last 32 slots.
pub(super) mod two {
    use super::*;

    /// Tables in use, as in [`Group::tables`].
    pub(in crate::simd) const TABLES: u8 = 0b1100_0011;

    kernel!("avx2", 2, masks::<2, _>);
}

/// For all groups.
pub(super) mod four {
    use super::*;

    kernel!("avx2", 2, masks::<4, _>);
}
