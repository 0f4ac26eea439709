//! Measurements on a noisy machine: clocks, rounds, statistics and reports.

pub(crate) mod clock;
pub(crate) mod column;
pub(crate) mod cycles;
pub(crate) mod interference;
pub mod machine;
pub(crate) mod noise;
pub mod partial;
pub mod record;
pub(crate) mod rounds;
pub mod run;
pub mod sample;
pub mod stats;
pub mod stretch;
