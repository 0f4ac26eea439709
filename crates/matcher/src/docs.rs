//! The page on matching, whose code is compiled and run.

#[doc = include_str!("../../../docs/mechanisms/matching.md")]
struct Matching;
