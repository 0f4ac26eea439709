//! The code that the linker has put together.
//!
//! A program may pass its linker a script that places the functions of a typical request between [`begin`] and [`end`],
//! as `crates/cli/hot.ld` does. They then fill few pages, and their cache lines can be
//! [prefetched](super::wake_prefetch) without a list.

use std::hint::black_box;
use std::ops::Range;

/// The range of plausible sizes, in bytes. Without a script, the two functions are neighbours.
const VALID_SIZES: Range<usize> = 4 << 10..1 << 20;

/// The first function.
#[inline(never)]
fn begin() -> u32 {
    black_box(1)
}

/// The last function. It differs from the first one, so that the linker does not merge them.
#[inline(never)]
fn end() -> u32 {
    black_box(2)
}

/// The addresses of the code; empty if the program was linked without a script.
pub(super) fn addresses() -> Range<usize> {
    let (begin, end) = (begin as fn() -> u32 as usize, end as fn() -> u32 as usize);
    match VALID_SIZES.contains(&end.wrapping_sub(begin)) {
        true => begin..end,
        false => 0..0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_script_there_is_no_hot_code() {
        assert_ne!(begin(), end());
        assert_eq!(addresses(), 0..0);
    }
}
