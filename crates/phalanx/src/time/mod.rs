//! Clocks and timers.
//!
//! [`now`] is the time of the running cohort, measured since the start of the program; reading it costs almost nothing.
//! Timers have a resolution of one millisecond, rounded up.
//!
//! ```
//! use phalanx::time::{now, sleep, timeout};
//! use phalanx::{Graph, Runtime};
//! use std::time::Duration;
//!
//! let mut graph = Graph::new();
//! let stage = graph.shared("stage", ());
//! Runtime::new().processors(1).run(graph, move |start| {
//!     let control = start.control();
//!     stage.dispatch(move |_| async move {
//!         let begin = now();
//!         let result = timeout(Duration::from_millis(5), sleep(Duration::from_secs(60))).await;
//!         assert!(result.is_err() && now() - begin >= Duration::from_millis(5));
//!         control.drain();
//!     })?;
//!     Ok(())
//! })?;
//! # Ok::<(), phalanx::runtime::RunError>(())
//! ```

mod deadline;
mod interval;

use std::time::Duration;

pub use self::deadline::Deadline;
pub use self::interval::{Interval, interval};
#[doc(inline)]
pub use phalanx_core::{Sleep, TimedOut, now, sleep, timeout};

use crate::io::with;

/// The time since the start of the program, like [`now`], but read from the clock, which takes about 25 ns. Use it to
/// measure work within a cohort, during which [`now`] does not change. In a simulation, it equals [`now`].
///
/// ```
/// use phalanx::time::{clock, time_of_day};
///
/// #[phalanx::main(processors = 1)]
/// async fn main() {
///     let (begin, date) = (clock(), time_of_day());
///     let squares: u64 = (0..1000).map(|n| n * n).sum();
///     println!("{squares} took {:?} at {} s since 1970", clock() - begin, date.as_secs());
///     # assert!(clock() >= begin);
/// }
/// ```
///
/// # Panics
/// If called outside a processor of a running [`Runtime`](crate::Runtime).
pub fn clock() -> Duration {
    with(|io| io.clock())
}

/// The wall-clock time since 1970; in a simulation, the simulated time. Each call reads the system clock. To measure
/// durations, use [`now`] or [`clock`].
///
/// # Panics
/// If called outside a processor of a running [`Runtime`](crate::Runtime).
pub fn time_of_day() -> Duration {
    with(|io| io.driver(|driver| driver.time_of_day()))
}
