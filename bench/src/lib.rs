//! What Phalanx measures: operations, load, and servers side by side.
//!
//! Every figure is one of paired arms in one run: the machine is assumed to be shared and noisy, so
//! ratios count and absolute times are only for orientation.
//!
//! - [`op`]: what an operation costs, beside a boxed closure and a spawned task.
//! - [`runtimes`]: the same small work on ours and on other runtimes.
//! - [`kernel`]: steady work whose instructions are counted by `cargo xtask gates`.
//! - [`pipeline`]: when cohorts pay, by the size of stages and cohorts.
//! - [`concurrency`]: what many requests at a time cost, and what a budget and pools save of it;
//!   [`failure`]: at which rate a server no longer recovers.
//! - [`ladder`]: what the runtime finds by itself, beside all sizes of cohorts.
//! - [`interleave`]: what prefetches within a cohort are worth; [`figure2`]: what cohorts of system
//!   calls are.
//! - [`load`]: HTTP load from one thread, in closed and open loop.
//! - [`floor`]: the least that a server on our drivers costs; [`twin`]: the same server with threads.
//! - [`matching`]: events against a million filters, one at a time and in cohorts.
//! - [`broker`]: the MQTT broker beside mosquitto.
//! - [`web`]: the web server beside both and beside the servers that others use.
//! - [`figure4`]: a profile of its stages, live; [`figure7`]: what a request costs it and its twin in instructions, misses
//!   and cycles.
//! - [`figure6`]: both under the load of users who read and think.
//! - [`figure8`]: a publish and its matches, through real sockets, threaded and staged.
//! - [`dial`]: what waiting for larger cohorts saves, and what it costs.
//! - [`light`]: its latency when there is little to do; [`overload`]: its goodput when there is too
//!   much.
//! - [`report`]: all of them in one go, on a page with plots.
//!
//! [`cli`] is how the program `phalanx` calls them.

#![forbid(unsafe_code)]

pub mod broker;
mod cachegrind;
pub mod cli;
mod clock;
pub mod concurrency;
pub mod dial;
pub mod failure;
pub mod figure2;
pub mod figure4;
pub mod figure6;
pub mod figure7;
pub mod figure8;
pub mod floor;
pub mod interleave;
pub mod kernel;
pub mod ladder;
pub mod light;
pub mod load;
pub mod matching;
mod noise;
pub mod op;
pub mod overload;
mod partial;
pub mod pipeline;
mod process;
pub mod procfs;
pub mod report;
mod rounds;
pub mod runtimes;
pub mod stats;
mod surge;
pub mod twin;
pub mod web;

/// Tells whoever started this server where it listens, as `phalanx web` does.
pub(crate) fn announce(address: std::net::SocketAddr) {
    use std::io::Write;
    let mut out = std::io::stdout();
    let _ = writeln!(out, "listening on http://{address}").and_then(|()| out.flush());
}
