//! The examples of the pages in `docs/` are compiled and run with the tests.

/// The README.
#[doc = include_str!("../../../README.md")]
struct Readme;
