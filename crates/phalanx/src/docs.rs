//! The examples of the pages in `docs/` are compiled and run with the tests.

/// The README.
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Thresholds.
#[doc = include_str!("../../../docs/mechanisms/thresholds.md")]
struct Thresholds;

/// Hold.
#[doc = include_str!("../../../docs/mechanisms/hold.md")]
struct Hold;

/// Backpressure.
#[doc = include_str!("../../../docs/mechanisms/backpressure.md")]
struct Backpressure;

/// Cohort operations.
#[doc = include_str!("../../../docs/mechanisms/cohort-operations.md")]
struct CohortOperations;

/// Panics.
#[doc = include_str!("../../../docs/mechanisms/panics.md")]
struct Panics;
