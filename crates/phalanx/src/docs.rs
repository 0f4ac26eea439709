//! The examples of the pages in `docs/` are compiled and run with the tests.

/// The README.
#[doc = include_str!("../../../README.md")]
struct Readme;

/// For those who know tokio.
#[doc = include_str!("../../../docs/coming-from-tokio.md")]
struct ComingFromTokio;

/// Which stage runs next.
#[doc = include_str!("../../../docs/mechanisms/wavefront.md")]
struct Wavefront;

/// Which operation runs next.
#[doc = include_str!("../../../docs/mechanisms/ordering.md")]
struct Ordering;

/// Waiting for time to pass.
#[doc = include_str!("../../../docs/mechanisms/timers.md")]
struct Timers;

/// Where operations live.
#[doc = include_str!("../../../docs/mechanisms/memory.md")]
struct Memory;
