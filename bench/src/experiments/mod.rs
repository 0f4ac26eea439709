//! The benchmarks, each a command of `phalanx-bench`.
//!
//! - [`op`]: the cost of an operation, a boxed closure and a spawned task.
//! - [`crossing`]: a call to another processor, and the parts of its cost.
//! - [`fibre`]: fibres compared with `async` operations.
//! - [`runtimes`]: the same small tasks on Phalanx and other runtimes.
//! - [`axum`]: an axum application on Phalanx and on tokio.
//! - [`pipeline`]: when cohorts pay, by size of stages and cohorts.
//! - [`concurrency`]: the cost of many concurrent requests, with and without a budget and pools; [`failure`]: the
//!   rate at which a server no longer recovers.
//! - [`ladder`]: the tuned cohort size compared with all sizes.
//! - [`interleave`]: the gain from prefetching within a cohort; [`figure2`]: from cohorts of system calls.
//! - [`matching`]: events against a million filters, one at a time and in cohorts.
//! - [`broker`]: the MQTT broker compared with others; [`state`]: the memory of what brokers hold, and the restart with it;
//!   [`cluster`]: three brokers over NATS compared with one.
//! - [`web`]: the web server compared with floor, twin and other servers.
//! - [`figure4`]: a profile of its stages; [`figure7`]: instructions, misses and cycles per request of it and its
//!   twin.
//! - [`figure6`]: web servers under the load of users who read and think.
//! - [`figure8`]: publish and match through real sockets, threaded and staged.
//! - [`batch_delay`]: processor time saved and latency added by a batching delay.
//! - [`placement`]: processor time and latency with as many active workers as the load needs.
//! - [`light`]: latency at light load; [`overload`]: goodput under overload.
//! - [`scale`]: servers by their number of processors.
//! - [`spread`]: balanced stages, cache affinity and moved partitions on two processors.
//! - [`servlib`]: programs with threads, natively and under `phalanx threads`.
//! - [`stingy`]: servers in C with the memory of `phalanx-stingy`.

pub(crate) mod axum;
pub(crate) mod batch_delay;
pub(crate) mod broker;
pub(crate) mod cluster;
pub(crate) mod concurrency;
pub(crate) mod crossing;
pub(crate) mod failure;
pub(crate) mod fibre;
pub(crate) mod figure2;
pub(crate) mod figure4;
pub(crate) mod figure6;
pub(crate) mod figure7;
pub(crate) mod figure8;
pub(crate) mod interleave;
pub(crate) mod ladder;
pub(crate) mod light;
pub(crate) mod matching;
pub(crate) mod op;
pub(crate) mod overload;
pub(crate) mod pipeline;
pub(crate) mod placement;
pub(crate) mod runtimes;
pub(crate) mod scale;
pub(crate) mod servlib;
pub(crate) mod spread;
pub(crate) mod state;
pub(crate) mod stingy;
pub(crate) mod web;
