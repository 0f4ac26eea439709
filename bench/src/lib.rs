//! Benchmarks of Phalanx: operations, load, and comparisons of servers.
//!
//! Every figure compares paired arms in one run. Machines are assumed to be shared and noisy, so ratios count,
//! and absolute times are only for orientation.
//!
//! - [`op`]: the cost of an operation, a boxed closure and a spawned task.
//! - [`runtimes`]: the same small tasks on Phalanx and other runtimes.
//! - [`kernel`]: fixed workloads whose instructions `cargo xtask gates` counts.
//! - [`pipeline`]: when cohorts pay, by size of stages and cohorts.
//! - [`concurrency`]: the cost of many concurrent requests, with and without a budget and pools; [`failure`]: the
//!   rate at which a server no longer recovers.
//! - [`ladder`]: the tuned cohort size compared with all sizes.
//! - [`interleave`]: the gain from prefetching within a cohort; [`figure2`]: from cohorts of system calls.
//! - [`load`]: HTTP load from one thread, in closed and open loop.
//! - [`floor`]: the minimum cost of a server on our drivers; [`twin`]: the threaded twin of the web server.
//! - [`matching`]: events against a million filters, one at a time and in cohorts.
//! - [`broker`]: the MQTT broker compared with mosquitto.
//! - [`web`]: the web server compared with floor, twin and other servers.
//! - [`figure4`]: a profile of its stages; [`figure7`]: instructions, misses and cycles per request of it and its
//!   twin.
//! - [`figure6`]: web servers under the load of users who read and think.
//! - [`figure8`]: publish and match through real sockets, threaded and staged.
//! - [`dial`]: processor time saved and latency added by a batching delay.
//! - [`light`]: latency at light load; [`overload`]: goodput under overload.
//! - [`scale`]: servers by their number of processors.
//! - [`report`]: all of them in one run, with a page of plots.
//!
//! [`cli`] defines the command lines of the program `phalanx-bench`.

#![forbid(unsafe_code)]

mod arguments;
pub mod broker;
mod cachegrind;
pub mod cli;
mod clock;
pub mod concurrency;
mod cores;
pub mod dial;
pub mod error;
mod experiment;
pub mod failure;
pub mod figure2;
pub mod figure4;
pub mod figure6;
pub mod figure7;
pub mod figure8;
pub mod floor;
mod interference;
pub mod interleave;
mod interrupt;
pub mod kernel;
pub mod ladder;
pub mod light;
pub mod load;
pub mod machine;
pub mod matching;
mod noise;
pub mod op;
pub mod overload;
mod partial;
pub mod pipeline;
mod process;
pub mod procfs;
mod programs;
pub mod record;
pub mod report;
mod rounds;
pub mod runtimes;
pub mod scale;
pub mod stats;
mod surge;
pub mod twin;
pub mod web;

/// Announces the listening address on standard output, as `phalanx web` does.
pub(crate) fn announce(address: std::net::SocketAddr) {
    use std::io::Write;
    let mut out = std::io::stdout();
    let _ = writeln!(out, "listening on http://{address}").and_then(|()| out.flush());
}
