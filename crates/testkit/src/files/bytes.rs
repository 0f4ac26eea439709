//! Contents of files and streams.

/// Pseudo-random bytes that depend on the seed (xorshift).
pub fn random_bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = vec![0; length.next_multiple_of(8)];
    // Few iterators within the loop: tests are compiled without optimisation.
    for word in bytes.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Bytes in which each position differs from its neighbors.
pub fn pattern(length: usize) -> Vec<u8> {
    (0..length.div_ceil(4) as u32).flat_map(u32::to_le_bytes).take(length).collect()
}

/// Compares without printing megabytes.
#[track_caller]
pub fn assert_same(found: &[u8], expected: &[u8]) {
    assert_eq!(found.len(), expected.len(), "lengths differ");
    if found != expected {
        let differs = found.iter().zip(expected).position(|(a, b)| a != b);
        panic!("the first difference is at {differs:?}");
    }
}
