//! The page on matching, included here so that its examples are compiled and run.

#[doc = include_str!("../../../docs/mechanisms/matching.md")]
struct Matching;
