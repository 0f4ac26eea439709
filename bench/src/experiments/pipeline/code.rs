//! Generated code: eight stages of up to 32 KiB of machine code each, as branchy as a server's.
//!
//! A stage is a list of calls to *leaves*, in an order that differs from their order in memory. A leaf is half a
//! KiB: eight blocks of a dozen instructions, each with two branches of which one is taken. So there is a taken
//! branch about every 60 bytes (nginx and lighttpd: every 51 to 57 bytes of the code that a request runs). Most
//! blocks test a bit that is equal in all requests, a quarter one of the request's kind, a sixteenth a random
//! one. Constants differ in every block, so that the compiler cannot merge them. All sizes run the same leaves,
//! smaller ones fewer.

pub(crate) const STAGES: usize = 8;
/// Leaves per KiB of code.
const PER_KIB: u64 = 2;

/// A request that passes through the stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Index in the stream.
    number: usize,
    /// Equal in all requests, but unknown to the compiler.
    fixed: [u32; 8],
    /// One of eight patterns.
    kind: [u32; 4],
    random: [u32; 2],
    /// The result; each block changes it, so that it depends on every branch.
    sum: [u32; 4],
}

/// A pseudo-random number derived from `seed`.
const fn mix(seed: u64) -> u32 {
    let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x2545_F491_4F6C_DD1D;
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (x >> 32) as u32
}

impl Request {
    /// The request of index `n`.
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

    /// Index in the stream, and the result.
    pub(crate) fn result(&self) -> (usize, [u32; 4]) {
        (self.number, self.sum)
    }
}

/// A dozen instructions with two branches, one of them taken.
macro_rules! block {
    ($a:ident, $b:ident, $c:ident, $d:ident, $request:ident, $mixed:ident, $n:expr) => {{
        let word = match (L * 8 + $n) % 16 {
            0 => $request.random[(L % 2) as usize],
            2 | 4 | 8 | 12 => $request.kind[(L % 4) as usize],
            _ => $request.fixed[$n % 8],
        };
        let constant = $mixed[$n];
        if word & (1 << (constant % 32)) == 0 {
            $a = $a.wrapping_add(constant);
            $b ^= $c;
            $d = $d.rotate_left(1 + constant % 30);
            $c = $c.wrapping_sub($a);
        } else {
            $d ^= constant;
            $c = $c.wrapping_add($b);
            $a = $a.rotate_right(1 + constant % 29);
            $b = $b.wrapping_sub($d);
        }
        $c ^= $mixed[8 + $n];
        $d = $d.wrapping_add($a);
    }};
}

/// The constants of a leaf, evaluated by the compiler. It took seven times as long for 20,000 `const` blocks.
const fn constants(leaf: u64) -> [u32; 16] {
    let mut all = [0; 16];
    let mut block = 0;
    while block < 8 {
        all[block] = mix(leaf * 1000 + block as u64);
        all[8 + block] = mix(leaf * 1000 + block as u64 + 500);
        block += 1;
    }
    all
}

/// The code of the leaf `L`: half a KiB.
#[inline(always)]
fn leaf<const L: u64>(request: &mut Request) {
    let mixed = const { &constants(L) };
    let [mut a, mut b, mut c, mut d] = request.sum;
    block!(a, b, c, d, request, mixed, 0);
    block!(b, c, d, a, request, mixed, 1);
    block!(c, d, a, b, request, mixed, 2);
    block!(d, a, b, c, request, mixed, 3);
    block!(a, b, c, d, request, mixed, 4);
    block!(b, c, d, a, request, mixed, 5);
    block!(c, d, a, b, request, mixed, 6);
    block!(d, a, b, c, request, mixed, 7);
    request.sum = [a, b, c, d];
}

/// The 64 leaves of a stage in memory order. The compiler places functions in the order of their definition, so
/// the first ones, which smaller stages use, are adjacent.
macro_rules! leaves {
    ($stage:literal) => { leaves! { $stage:
        l0 0, l1 1, l2 2, l3 3, l4 4, l5 5, l6 6, l7 7,
        l8 8, l9 9, l10 10, l11 11, l12 12, l13 13, l14 14, l15 15,
        l16 16, l17 17, l18 18, l19 19, l20 20, l21 21, l22 22, l23 23,
        l24 24, l25 25, l26 26, l27 27, l28 28, l29 29, l30 30, l31 31,
        l32 32, l33 33, l34 34, l35 35, l36 36, l37 37, l38 38, l39 39,
        l40 40, l41 41, l42 42, l43 43, l44 44, l45 45, l46 46, l47 47,
        l48 48, l49 49, l50 50, l51 51, l52 52, l53 53, l54 54, l55 55,
        l56 56, l57 57, l58 58, l59 59, l60 60, l61 61, l62 62, l63 63,
    } };
    ($stage:literal: $($leaf:ident $number:literal,)*) => {
        $(
            #[inline(never)]
            pub(super) fn $leaf(request: &mut Request) {
                super::leaf::<{ $stage * 64 + $number }>(request);
            }
        )*
    };
}

/// The code of one stage of `KIB` KiB: calls its leaves numbered below that size, in the given order.
macro_rules! stage {
    ($name:ident $stage:literal: $($leaf:ident $number:literal,)*) => {
        mod $name {
            use super::Request;
            leaves!($stage);
        }

        #[inline(never)]
        pub(crate) fn $name<const KIB: u64>(request: &mut Request) {
            $(if $number < KIB * PER_KIB {
                $name::$leaf(request);
            })*
        }
    };
}

stage!(read 0:
        l30 30, l19 19, l6 6, l46 46, l25 25, l63 63, l9 9, l5 5,
        l4 4, l1 1, l59 59, l35 35, l18 18, l48 48, l3 3, l14 14,
        l33 33, l34 34, l23 23, l17 17, l11 11, l61 61, l16 16, l13 13,
        l54 54, l41 41, l44 44, l12 12, l10 10, l62 62, l51 51, l45 45,
        l56 56, l27 27, l60 60, l52 52, l21 21, l36 36, l38 38, l7 7,
        l31 31, l24 24, l15 15, l8 8, l2 2, l37 37, l57 57, l0 0,
        l47 47, l58 58, l43 43, l55 55, l20 20, l49 49, l42 42, l50 50,
        l26 26, l28 28, l40 40, l39 39, l22 22, l32 32, l29 29, l53 53,
);

stage!(parse 1:
        l10 10, l2 2, l29 29, l40 40, l17 17, l33 33, l34 34, l41 41,
        l30 30, l44 44, l21 21, l9 9, l43 43, l12 12, l4 4, l26 26,
        l50 50, l60 60, l46 46, l28 28, l59 59, l11 11, l22 22, l27 27,
        l37 37, l20 20, l35 35, l47 47, l38 38, l6 6, l3 3, l14 14,
        l51 51, l24 24, l18 18, l19 19, l45 45, l7 7, l58 58, l63 63,
        l5 5, l52 52, l32 32, l0 0, l1 1, l42 42, l62 62, l56 56,
        l55 55, l39 39, l23 23, l49 49, l13 13, l31 31, l57 57, l54 54,
        l36 36, l48 48, l8 8, l25 25, l15 15, l53 53, l61 61, l16 16,
);

stage!(route 2:
        l20 20, l21 21, l36 36, l0 0, l23 23, l2 2, l29 29, l10 10,
        l59 59, l50 50, l51 51, l55 55, l18 18, l61 61, l6 6, l28 28,
        l13 13, l27 27, l47 47, l7 7, l3 3, l43 43, l42 42, l56 56,
        l38 38, l9 9, l58 58, l34 34, l31 31, l15 15, l63 63, l37 37,
        l44 44, l26 26, l16 16, l39 39, l24 24, l45 45, l33 33, l49 49,
        l54 54, l46 46, l35 35, l14 14, l30 30, l52 52, l1 1, l62 62,
        l19 19, l57 57, l41 41, l40 40, l22 22, l53 53, l25 25, l12 12,
        l60 60, l48 48, l32 32, l5 5, l17 17, l4 4, l11 11, l8 8,
);

stage!(check 3:
        l53 53, l55 55, l16 16, l9 9, l20 20, l3 3, l57 57, l59 59,
        l36 36, l7 7, l62 62, l25 25, l41 41, l51 51, l45 45, l47 47,
        l2 2, l31 31, l24 24, l5 5, l27 27, l13 13, l63 63, l10 10,
        l21 21, l18 18, l30 30, l56 56, l26 26, l33 33, l42 42, l17 17,
        l39 39, l29 29, l12 12, l15 15, l48 48, l8 8, l50 50, l46 46,
        l6 6, l1 1, l37 37, l19 19, l4 4, l35 35, l22 22, l44 44,
        l14 14, l60 60, l54 54, l11 11, l23 23, l49 49, l58 58, l0 0,
        l28 28, l32 32, l38 38, l52 52, l43 43, l61 61, l40 40, l34 34,
);

stage!(fetch 4:
        l28 28, l35 35, l3 3, l56 56, l12 12, l10 10, l42 42, l38 38,
        l21 21, l52 52, l62 62, l49 49, l50 50, l30 30, l33 33, l63 63,
        l1 1, l5 5, l2 2, l44 44, l60 60, l7 7, l31 31, l53 53,
        l16 16, l43 43, l8 8, l45 45, l23 23, l46 46, l54 54, l0 0,
        l19 19, l26 26, l11 11, l51 51, l36 36, l27 27, l17 17, l14 14,
        l59 59, l6 6, l9 9, l40 40, l57 57, l15 15, l20 20, l61 61,
        l48 48, l47 47, l55 55, l25 25, l34 34, l37 37, l22 22, l13 13,
        l41 41, l32 32, l29 29, l24 24, l18 18, l4 4, l39 39, l58 58,
);

stage!(shape 5:
        l21 21, l23 23, l55 55, l10 10, l11 11, l45 45, l9 9, l20 20,
        l31 31, l63 63, l16 16, l34 34, l0 0, l58 58, l60 60, l51 51,
        l41 41, l19 19, l7 7, l52 52, l50 50, l61 61, l38 38, l30 30,
        l33 33, l4 4, l39 39, l15 15, l26 26, l18 18, l22 22, l14 14,
        l59 59, l27 27, l56 56, l48 48, l54 54, l1 1, l46 46, l49 49,
        l17 17, l32 32, l44 44, l57 57, l53 53, l37 37, l40 40, l12 12,
        l47 47, l36 36, l25 25, l29 29, l5 5, l24 24, l42 42, l2 2,
        l6 6, l28 28, l62 62, l35 35, l13 13, l3 3, l8 8, l43 43,
);

stage!(pack 6:
        l44 44, l43 43, l39 39, l56 56, l5 5, l4 4, l25 25, l41 41,
        l11 11, l21 21, l60 60, l23 23, l20 20, l55 55, l19 19, l1 1,
        l38 38, l48 48, l33 33, l59 59, l22 22, l6 6, l10 10, l50 50,
        l37 37, l31 31, l36 36, l58 58, l7 7, l40 40, l30 30, l14 14,
        l49 49, l27 27, l29 29, l62 62, l12 12, l47 47, l35 35, l15 15,
        l28 28, l57 57, l9 9, l34 34, l52 52, l53 53, l17 17, l16 16,
        l32 32, l24 24, l45 45, l42 42, l8 8, l13 13, l63 63, l61 61,
        l26 26, l3 3, l51 51, l0 0, l2 2, l54 54, l46 46, l18 18,
);

stage!(send 7:
        l51 51, l60 60, l24 24, l39 39, l1 1, l9 9, l32 32, l4 4,
        l29 29, l40 40, l22 22, l38 38, l50 50, l19 19, l5 5, l48 48,
        l16 16, l30 30, l14 14, l54 54, l46 46, l52 52, l56 56, l58 58,
        l15 15, l41 41, l63 63, l8 8, l3 3, l10 10, l25 25, l47 47,
        l59 59, l57 57, l7 7, l49 49, l61 61, l35 35, l6 6, l31 31,
        l34 34, l2 2, l26 26, l36 36, l27 27, l44 44, l28 28, l42 42,
        l13 13, l53 53, l11 11, l62 62, l37 37, l20 20, l17 17, l0 0,
        l45 45, l43 43, l21 21, l12 12, l33 33, l18 18, l55 55, l23 23,
);

/// The eight stages in order, with `kib` KiB of code each.
///
/// # Panics
/// If there is no such size.
pub(crate) fn stages(kib: u64) -> [fn(&mut Request); STAGES] {
    macro_rules! sized {
        ($($kib:literal)*) => {
            match kib {
                $($kib => [
                    read::<$kib>, parse::<$kib>, route::<$kib>, check::<$kib>,
                    fetch::<$kib>, shape::<$kib>, pack::<$kib>, send::<$kib>,
                ],)*
                other => unreachable!("no stage has {other} KiB"),
            }
        };
    }
    sized!(1 2 4 8 16 32)
}

/// Run to completion: one stage after another as plain calls.
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

/// Bytes of machine code in a stage of `kib` KiB, derived from the distance of leaves.
pub(crate) fn stage_bytes(kib: u64) -> u64 {
    let leaf = |leaf: fn(&mut Request)| leaf as usize as u64;
    // Leaves are contiguous.
    let sixteen = leaf(read::l16).abs_diff(leaf(read::l0));
    sixteen * PER_KIB * kib / 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_depend_on_every_stage_and_request() {
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
