//! How long a test changes the number of active processors, and with how many connections.

use std::time::Duration;

/// The size of such a test: small by default. `PHALANX_STEPS=N` selects `N` steps of one second with 1,000 connections.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    /// The number of changes.
    pub count: usize,
    /// The time from one change to the next.
    pub length: Duration,
    /// The number of connections.
    pub connections: usize,
}

impl Steps {
    /// The size that the environment selects.
    ///
    /// # Panics
    /// If `PHALANX_STEPS` is not a number.
    pub fn from_environment() -> Self {
        match std::env::var("PHALANX_STEPS") {
            Ok(count) => Self {
                count: count.parse().expect("PHALANX_STEPS is a number of steps"),
                length: Duration::from_secs(1),
                connections: 1000,
            },
            Err(_) => Self { count: 10, length: Duration::from_millis(120), connections: 200 },
        }
    }
}
