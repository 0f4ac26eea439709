//! The checks in 512-bit vectors: a line is one register, an event's 64 codes are one table, and one
//! instruction performs the 64 lookups of a block.
//!
//! # Safety
//! The only unsafe call loads a [`Line`], which is aligned to its 64 bytes.

#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m512i, _mm512_cmpeq_epi8_mask, _mm512_cmple_epu8_mask, _mm512_load_si512,
    _mm512_permutexvar_epi8, _mm512_sub_epi8,
};

use super::lanes;
use crate::index::code::event::Line;
use crate::index::rows::group::{Group, LANES};

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn load(line: &Line) -> __m512i {
    // SAFETY: a line has 64 bytes and is aligned to 64.
    unsafe { _mm512_load_si512(line.0.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn equal<const N: usize>(slots: &Line, wanted: &Line, events: &[Line; N], masks: &mut [u64; N]) {
    let (slots, wanted) = (load(slots), load(wanted));
    for (event, mask) in events.iter().zip(masks) {
        let codes = _mm512_permutexvar_epi8(slots, load(event));
        *mask &= _mm512_cmpeq_epi8_mask(codes, wanted);
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn range<const N: usize>(
    slots: &Line,
    lows: &Line,
    widths: &Line,
    events: &[Line; N],
    masks: &mut [u64; N],
) {
    let (slots, lows, widths) = (load(slots), load(lows), load(widths));
    for (event, mask) in events.iter().zip(masks) {
        let codes = _mm512_permutexvar_epi8(slots, load(event));
        *mask &= _mm512_cmple_epu8_mask(_mm512_sub_epi8(codes, lows), widths);
    }
}

masks!("avx512f,avx512bw,avx512vbmi", equal, range);
kernel!("avx512f,avx512bw,avx512vbmi", 4, masks);
