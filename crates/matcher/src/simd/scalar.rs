//! The checks without vectors: the first condition of a block on all lanes, the others on the remaining
//! lanes.

use super::lanes;
use crate::index::code::event::Line;
use crate::index::rows::group::{Group, LANES};

pub(super) fn check(group: &Group, events: &[Line], found: &mut impl FnMut(usize, usize)) {
    for (at, block) in group.lines.chunks_exact(group.stride()).enumerate() {
        let valid = lanes(group.ids.len(), at);
        let (equals, ranges) = block.split_at(2 * group.equals);
        for (number, Line(event)) in events.iter().enumerate() {
            // A line has 64 slots: the mask removes the bounds check.
            let code = |slot: &Line, lane: usize| event[usize::from(slot.0[lane]) & 63];
            let mut left = valid;
            for equal in equals.chunks_exact(2) {
                left = narrow(left, |lane| code(&equal[0], lane) == equal[1].0[lane]);
            }
            for range in ranges.chunks_exact(3) {
                left = narrow(left, |lane| {
                    code(&range[0], lane).wrapping_sub(range[1].0[lane]) <= range[2].0[lane]
                });
            }
            while left != 0 {
                found(number, at * LANES + left.trailing_zeros() as usize);
                left &= left - 1;
            }
        }
    }
}

/// The lanes of `left` for which `holds` is true.
#[inline(always)]
fn narrow(left: u64, holds: impl Fn(usize) -> bool) -> u64 {
    let mut remaining = 0;
    if left == u64::MAX {
        for lane in 0..LANES {
            remaining |= u64::from(holds(lane)) << lane;
        }
        return remaining;
    }
    let mut rest = left;
    while rest != 0 {
        let lane = rest.trailing_zeros() as usize;
        remaining |= u64::from(holds(lane)) << lane;
        rest &= rest - 1;
    }
    remaining
}
