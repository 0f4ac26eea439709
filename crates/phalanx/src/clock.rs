//! The time of day.

use std::time::Duration;

/// The time of day, since 1970: the machine's, or in a simulation the simulated world's. Asks the
/// machine each time; for spans of time take [`now`](crate::now), which costs nothing.
///
/// # Panics
/// Outside of a processor of a running [`Runtime`](crate::Runtime).
pub fn time_of_day() -> Duration {
    crate::io::with(|io| io.driver(|driver| driver.time_of_day()))
}
