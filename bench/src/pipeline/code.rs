//! Generated code: eight stages of up to 32 KiB of machine code each, as branchy as a server's.
//!
//! A stage is a list of calls on *leaves*, in an order that is not their order in memory. A leaf is
//! half a KiB: eight blocks of a dozen instructions, each with two branches of which one is taken,
//! so there is a taken branch about every 60 bytes (nginx and lighttpd: every 51 to 57 bytes of the
//! code that a request runs). Most blocks test a bit that is the same in all requests, a quarter
//! one of the request's kind, a sixteenth a random one. Constants differ in every block, so that
//! the compiler finds nothing to share. All sizes run the same leaves, the smaller ones fewer.

/// Stages in the line.
pub(crate) const STAGES: usize = 8;
/// Leaves for a KiB of code.
const PER_KIB: u64 = 2;

/// What passes through the stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Its place in the stream.
    number: usize,
    /// The same in all requests, which the compiler does not know.
    fixed: [u32; 8],
    /// One of eight patterns.
    kind: [u32; 4],
    random: [u32; 2],
    /// The work: each block changes it, and what it becomes depends on every branch.
    sum: [u32; 4],
}

/// A number that looks random, from one that does not.
const fn mix(seed: u64) -> u32 {
    let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x2545_F491_4F6C_DD1D;
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (x >> 32) as u32
}

impl Request {
    /// The `n`th request of the stream.
    pub(crate) fn new(n: usize) -> Self {
        let random = mix(n as u64 + 1_000_003);
        let kind = u64::from(random % 8);
        Self {
            number: n,
            fixed: std::array::from_fn(|word| mix(word as u64 + 77)),
            kind: std::array::from_fn(|word| mix(kind * 4 + word as u64 + 999)),
            random: [mix(n as u64 + 2_000_003), mix(n as u64 + 3_000_017)],
            sum: [n as u32, 2, 3, 4],
        }
    }

    /// Its place in the stream, and what has come out.
    pub(crate) fn result(&self) -> (usize, [u32; 4]) {
        (self.number, self.sum)
    }
}

/// A dozen instructions with two branches, one of them taken.
macro_rules! block {
    ($a:ident, $b:ident, $c:ident, $d:ident, $request:ident, $n:expr) => {{
        let word = match (L * 8 + $n) % 16 {
            0 => $request.random[(L % 2) as usize],
            2 | 4 | 8 | 12 => $request.kind[(L % 4) as usize],
            _ => $request.fixed[$n % 8],
        };
        let constant = const { mix(L * 1000 + $n) };
        if word & const { 1 << (mix(L * 1000 + $n) % 32) } == 0 {
            $a = $a.wrapping_add(constant);
            $b ^= $c;
            $d = $d.rotate_left(const { 1 + mix(L * 1000 + $n) % 30 });
            $c = $c.wrapping_sub($a);
        } else {
            $d ^= constant;
            $c = $c.wrapping_add($b);
            $a = $a.rotate_right(const { 1 + mix(L * 1000 + $n) % 29 });
            $b = $b.wrapping_sub($d);
        }
        $c ^= const { mix(L * 1000 + $n + 500) };
        $d = $d.wrapping_add($a);
    }};
}

/// Half a KiB of code, different for each `L`.
#[inline(never)]
fn leaf<const L: u64>(request: &mut Request) {
    let [mut a, mut b, mut c, mut d] = request.sum;
    block!(a, b, c, d, request, 0);
    block!(b, c, d, a, request, 1);
    block!(c, d, a, b, request, 2);
    block!(d, a, b, c, request, 3);
    block!(a, b, c, d, request, 4);
    block!(b, c, d, a, request, 5);
    block!(c, d, a, b, request, 6);
    block!(d, a, b, c, request, 7);
    request.sum = [a, b, c, d];
}

/// The code of one stage, `KIB` KiB of it: those of its 64 leaves that are numbered below that.
macro_rules! stage {
    ($name:ident $stage:literal: $($leaf:literal)*) => {
        #[inline(never)]
        pub(crate) fn $name<const KIB: u64>(request: &mut Request) {
            $(if $leaf < KIB * PER_KIB {
                leaf::<{ $stage * 64 + $leaf }>(request);
            })*
        }
    };
}

stage!(read 0:
    30 19 6 46 25 63 9 5 4 1 59 35 18 48 3 14 33 34 23 17 11 61
    16 13 54 41 44 12 10 62 51 45 56 27 60 52 21 36 38 7 31 24 15 8
    2 37 57 0 47 58 43 55 20 49 42 50 26 28 40 39 22 32 29 53);
stage!(parse 1:
    10 2 29 40 17 33 34 41 30 44 21 9 43 12 4 26 50 60 46 28 59 11
    22 27 37 20 35 47 38 6 3 14 51 24 18 19 45 7 58 63 5 52 32 0
    1 42 62 56 55 39 23 49 13 31 57 54 36 48 8 25 15 53 61 16);
stage!(route 2:
    20 21 36 0 23 2 29 10 59 50 51 55 18 61 6 28 13 27 47 7 3 43
    42 56 38 9 58 34 31 15 63 37 44 26 16 39 24 45 33 49 54 46 35 14
    30 52 1 62 19 57 41 40 22 53 25 12 60 48 32 5 17 4 11 8);
stage!(check 3:
    53 55 16 9 20 3 57 59 36 7 62 25 41 51 45 47 2 31 24 5 27 13
    63 10 21 18 30 56 26 33 42 17 39 29 12 15 48 8 50 46 6 1 37 19
    4 35 22 44 14 60 54 11 23 49 58 0 28 32 38 52 43 61 40 34);
stage!(fetch 4:
    28 35 3 56 12 10 42 38 21 52 62 49 50 30 33 63 1 5 2 44 60 7
    31 53 16 43 8 45 23 46 54 0 19 26 11 51 36 27 17 14 59 6 9 40
    57 15 20 61 48 47 55 25 34 37 22 13 41 32 29 24 18 4 39 58);
stage!(shape 5:
    21 23 55 10 11 45 9 20 31 63 16 34 0 58 60 51 41 19 7 52 50 61
    38 30 33 4 39 15 26 18 22 14 59 27 56 48 54 1 46 49 17 32 44 57
    53 37 40 12 47 36 25 29 5 24 42 2 6 28 62 35 13 3 8 43);
stage!(pack 6:
    44 43 39 56 5 4 25 41 11 21 60 23 20 55 19 1 38 48 33 59 22 6
    10 50 37 31 36 58 7 40 30 14 49 27 29 62 12 47 35 15 28 57 9 34
    52 53 17 16 32 24 45 42 8 13 63 61 26 3 51 0 2 54 46 18);
stage!(send 7:
    51 60 24 39 1 9 32 4 29 40 22 38 50 19 5 48 16 30 14 54 46 52
    56 58 15 41 63 8 3 10 25 47 59 57 7 49 61 35 6 31 34 2 26 36
    27 44 28 42 13 53 11 62 37 20 17 0 45 43 21 12 33 18 55 23);

/// Run to completion: one stage after the other, as plain calls.
#[inline(never)]
pub(crate) fn all<const KIB: u64>(request: &mut Request) {
    read::<KIB>(request);
    parse::<KIB>(request);
    route::<KIB>(request);
    check::<KIB>(request);
    fetch::<KIB>(request);
    shape::<KIB>(request);
    pack::<KIB>(request);
    send::<KIB>(request);
}

/// Bytes of machine code in a stage of `kib` KiB, from the distance between leaves.
pub(crate) fn stage_bytes(kib: u64) -> u64 {
    type Leaf = fn(&mut Request);
    let leaves: [Leaf; 9] = [
        leaf::<0>, leaf::<1>, leaf::<2>, leaf::<3>, leaf::<4>, leaf::<5>, leaf::<6>, leaf::<7>,
        leaf::<8>,
    ];
    let mut at = leaves.map(|leaf| leaf as usize as u64);
    at.sort_unstable();
    let mut gaps: Vec<u64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    // The smaller half: others may lie between.
    gaps[gaps.len() / 4] * PER_KIB * kib
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_out_depends_on_every_stage_and_request() {
        let run = |n: usize| {
            let mut request = Request::new(n);
            all::<2>(&mut request);
            request.sum
        };
        assert_eq!(run(5), run(5));
        let different: std::collections::HashSet<_> = (0..1000).map(run).collect();
        assert_eq!(different.len(), 1000);
        let mut less = Request::new(5);
        all::<1>(&mut less);
        assert_ne!(less.sum, run(5));
    }

    #[test]
    fn a_stage_is_about_as_large_as_it_says() {
        if !cfg!(debug_assertions) && cfg!(target_arch = "x86_64") {
            assert!((14 * 1024..18 * 1024).contains(&stage_bytes(16)), "{}", stage_bytes(16));
        }
    }
}
