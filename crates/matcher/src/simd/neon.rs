//! The checks in 128-bit vectors of ARM: 16 lanes at a time, and one lookup in a table of 64.
//!
//! # Safety
//! The only unsafe calls load 16, or four times 16, of the 64 bytes of a [`Line`].

#![allow(unsafe_code)]

use std::arch::aarch64::{
    uint8x16_t, uint8x16x4_t, vaddv_u8, vandq_u8, vceqq_u8, vcleq_u8, vget_high_u8, vget_low_u8,
    vld1q_u8, vld1q_u8_x4, vqtbl4q_u8, vsubq_u8,
};

use super::lanes;
use crate::index::code::event::Line;
use crate::index::rows::group::{Group, LANES};

/// The bit of each lane within its group of eight.
const BITS: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];

/// 16 of a line's bytes.
#[inline]
#[target_feature(enable = "neon")]
fn quarter(line: &Line, at: usize) -> uint8x16_t {
    let bytes: &[u8; 16] = line.0[16 * at..].first_chunk().expect("64 bytes");
    // SAFETY: 16 bytes within a line.
    unsafe { vld1q_u8(bytes.as_ptr()) }
}

/// A whole line, as a lookup table.
#[inline]
#[target_feature(enable = "neon")]
fn table(line: &Line) -> uint8x16x4_t {
    // SAFETY: a line is 64 bytes.
    unsafe { vld1q_u8_x4(line.0.as_ptr()) }
}

/// One bit per lane, from lanes of all ones or all zeros.
#[inline]
#[target_feature(enable = "neon")]
fn bits(lanes: uint8x16_t) -> u64 {
    // SAFETY: 16 bytes.
    let weights = unsafe { vld1q_u8(BITS.as_ptr()) };
    let weighted = vandq_u8(lanes, weights);
    u64::from(vaddv_u8(vget_low_u8(weighted))) | u64::from(vaddv_u8(vget_high_u8(weighted))) << 8
}

#[inline]
#[target_feature(enable = "neon")]
fn equal<const N: usize>(slots: &Line, wanted: &Line, events: &[Line; N], masks: &mut [u64; N]) {
    for (event, mask) in events.iter().zip(masks) {
        let codes = table(event);
        let mut holds = 0;
        for at in 0..4 {
            let code = vqtbl4q_u8(codes, quarter(slots, at));
            holds |= bits(vceqq_u8(code, quarter(wanted, at))) << (16 * at);
        }
        *mask &= holds;
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn range<const N: usize>(
    slots: &Line,
    lows: &Line,
    widths: &Line,
    events: &[Line; N],
    masks: &mut [u64; N],
) {
    for (event, mask) in events.iter().zip(masks) {
        let codes = table(event);
        let mut holds = 0;
        for at in 0..4 {
            let above = vsubq_u8(vqtbl4q_u8(codes, quarter(slots, at)), quarter(lows, at));
            holds |= bits(vcleq_u8(above, quarter(widths, at))) << (16 * at);
        }
        *mask &= holds;
    }
}

masks!("neon", equal, range);
kernel!("neon", 4, masks);
