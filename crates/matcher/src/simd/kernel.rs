//! The loop over blocks and events that all vector instruction sets share.
//!
//! The outer loop visits blocks, the inner loop events, some at a time: a block's lines are read once for
//! these, and the events stay in the first-level cache.

/// Defines `check` for the features, for `$many` events at a time, from the functions that check a block for
/// many events or for one.
macro_rules! kernel {
    ($features:literal, $events:literal, $masks:path) => {
        /// Calls `found` with each event and row where all conditions hold.
        #[target_feature(enable = $features)]
        pub(in crate::simd) fn check<F: FnMut(usize, usize)>(
            group: &Group,
            events: &[Line],
            found: &mut F,
        ) {
            let (chunks, rest) = events.as_chunks::<$events>();
            for (at, block) in group.lines.chunks_exact(group.stride()).enumerate() {
                let valid = lanes(group.ids.len(), at);
                for (chunk, events) in chunks.iter().enumerate() {
                    let masks = $masks(block, group.equals, events, valid);
                    if masks.iter().fold(0, |all, mask| all | mask) != 0 {
                        for (event, mask) in masks.into_iter().enumerate() {
                            report(mask, $events * chunk + event, at, found);
                        }
                    }
                }
                for (event, line) in rest.iter().enumerate() {
                    let [mask] = $masks(block, group.equals, std::array::from_ref(line), valid);
                    report(mask, $events * chunks.len() + event, at, found);
                }
            }
        }

        #[inline]
        fn report<F: FnMut(usize, usize)>(
            mut mask: u64,
            event: usize,
            block: usize,
            found: &mut F,
        ) {
            while mask != 0 {
                found(event, block * LANES + mask.trailing_zeros() as usize);
                mask &= mask - 1;
            }
        }
    };
}

/// Defines `masks`, the lanes of a block in which all conditions hold for each event, from the functions that
/// narrow masks to equal codes and to ranges.
macro_rules! masks {
    ($features:literal, $equal:path, $range:path) => {
        /// For each event, the lanes in which all conditions hold.
        #[inline]
        #[target_feature(enable = $features)]
        fn masks<const N: usize>(
            block: &[Line],
            equals: usize,
            events: &[Line; N],
            valid: u64,
        ) -> [u64; N] {
            let mut masks = [valid; N];
            let (equals, ranges) = block.split_at(2 * equals);
            let mut checked = 0;
            // Two conditions exclude nearly all lanes of most blocks; after one condition the test does not
            // pay.
            let done = |masks: &[u64; N], checked: &mut usize| {
                *checked += 1;
                *checked >= 2 && masks.iter().fold(0, |all, mask| all | mask) == 0
            };
            for condition in equals.chunks_exact(2) {
                $equal(&condition[0], &condition[1], events, &mut masks);
                if done(&masks, &mut checked) {
                    return masks;
                }
            }
            for condition in ranges.chunks_exact(3) {
                $range(&condition[0], &condition[1], &condition[2], events, &mut masks);
                if done(&masks, &mut checked) {
                    return masks;
                }
            }
            masks
        }
    };
}
