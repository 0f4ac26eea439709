//! A runtime for servers that runs similar work of different requests together.
//!
//! A server is a set of *stages*, declared on a [`Graph`]: each a name, some state and a policy by
//! which operations reach that state. An *operation* is an asynchronous call on a stage, written as
//! an `async` closure. Each processor (a thread on a core) runs a whole *cohort* of one stage's
//! operations before it goes on to the next, so code, data and system calls are paid for once a
//! cohort instead of once a request.
//!
//! ```
//! use phalanx::{Graph, Runtime};
//!
//! let mut graph = Graph::new();
//! let front = graph.shared("front", ());
//! let counts = graph.partitioned("counts", |_| std::collections::HashMap::<u64, u32>::new());
//!
//! Runtime::new().processors(2).run(graph, move |start| {
//!     let control = start.control();
//!     if start.processor() > 0 {
//!         return Ok(()); // one processor asks; the key's processor answers
//!     }
//!     front.dispatch(move |_| async move {
//!         for key in [3, 5, 3] {
//!             let seen = counts.call(key, move |counts| async move {
//!                 counts.with(|counts| {
//!                     let count = counts.entry(key).or_default();
//!                     *count += 1;
//!                     *count
//!                 })
//!             });
//!             println!("{key}: {}", seen.await.unwrap());
//!         }
//!         control.drain();
//!     })?;
//!     Ok(())
//! })?;
//! # Ok::<(), phalanx::RunError>(())
//! ```
//!
//! The scheduler is the crate `phalanx-core`, whose items are found here too; the ways to the
//! operating system are in `phalanx-driver`. This crate puts them together: [`Runtime`], [`net`],
//! [`fs`], and the admin pages.

#![forbid(unsafe_code)]

mod admin;
mod affinity;
mod blocking;
mod cache;
mod clock;
mod coalescing;
mod counter;
#[cfg(doctest)]
mod docs;
mod error;
mod exit_report;
pub mod fs;
mod io;
pub mod net;
mod panics;
mod region;
mod rlimit;
mod runtime;
mod select;
mod shutdown_signal;
mod signals;
pub mod sim;
mod sleep_cost;
mod stall_detector;
mod stuck;
mod supervisor;
mod supervisor_idle;
mod tracing_events;
mod worker_thread;
mod world;

/// For `phalanx top`, so that it writes figures as the pages do.
#[doc(hidden)]
pub use admin::human;
pub use admin::{
    ArcInterval, ArcSnapshot, BytesSnapshot, ColumnSnapshot, CounterSnapshot, Interval,
    ObjectBytesSnapshot, OperationBytesSnapshot, ProcessorInterval, ProcessorSnapshot, Snapshot,
    StageInterval, StageSnapshot, TimesSnapshot, VERSION as SNAPSHOT_VERSION,
};
pub use blocking::{
    BlockingCall, BlockingError, BlockingOptions, BlockingStage, DEFAULT_BLOCKING_QUEUE,
    DEFAULT_BLOCKING_THREADS, blocking,
};
pub use bytes::Bytes;
pub use clock::time_of_day;
pub use counter::Counter;
pub use error::{RunError, StartError};
pub use exit_report::{ExitReport, Leaks};
pub use io::{Elsewhere, IoTimeout};
pub use phalanx_core::*;
pub use phalanx_driver::{DriverChoice, DriverKind, Payload};
pub use rlimit::raise_open_files;
pub use runtime::{DEFAULT_DRAIN, DEFAULT_REGION, DEFAULT_SPIN, Runtime, Started};
pub use select::{Either, select};
pub use shutdown_signal::{Drained, Draining, draining, is_draining};
pub use stall_detector::DEFAULT_STALL_THRESHOLD;
pub use stuck::{END_LIMIT, EXIT_STUCK};
pub use worker_thread::StartContext;
