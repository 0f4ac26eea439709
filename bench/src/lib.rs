//! Benchmarks of Phalanx: operations, load, and comparisons of servers.
//!
//! Every figure compares paired arms in one run. Machines are assumed to be shared and noisy, so ratios count,
//! and absolute times are only for orientation.
//!
//! From the lowest layer: `system` (processes and cores), `measure` (rounds, statistics, reports), [`load`] (HTTP
//! load from one thread) and [`baselines`] (servers to compare with), `runner` (web servers side by side),
//! `experiments` (the benchmarks), `report` (all of them in one run, with a page of plots) and [`cli`] (the
//! command lines).

#![forbid(unsafe_code)]

mod arguments;
pub mod baselines;
pub mod cli;
mod error;
mod experiment;
mod experiments;
pub mod load;
mod measure;
mod report;
mod runner;
mod system;
