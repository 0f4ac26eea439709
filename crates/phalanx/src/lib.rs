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
//! # Ok::<(), phalanx::runtime::RunError>(())
//! ```
//!
//! The root contains the names that nearly every program uses. The rest is in modules:
//!
//! | module | contents |
//! |---|---|
//! | [`runtime`] | running a program: options, errors, the exit report |
//! | [`stage`] | handles, policies and options of stages |
//! | [`task`] | operations: calls, replies, joins, sessions |
//! | [`sync`] | events between operations, and from other threads |
//! | [`time`] | clocks and timers |
//! | [`net`], [`fs`] | sockets and files |
//! | [`blocking`] | blocking calls on a thread pool |
//! | [`shutdown`] | graceful shutdown |
//! | [`overload`] | admission, load shedding, backpressure |
//! | [`metrics`] | counters, profiles and snapshots |
//! | [`sim`] | deterministic simulation of a whole program |
//! | [`embed`] | the scheduler without the runtime |
//!
//! Features, all enabled by default except `tracing`:
//!
//! | feature | contents |
//! |---|---|
//! | `admin` | the admin pages: [`Runtime::admin`]; implies `serde` |
//! | `serde` | `Serialize` and `Deserialize` for the snapshots in [`metrics`] |
//! | `sim` | the module [`sim`] |
//! | `macros` | the attributes [`main`] and [`test`] |
//! | `tracing` | events for the crate `tracing` |
//!
//! The scheduler is the crate `phalanx-core`; the drivers for io_uring, epoll and kqueue are in `phalanx-driver`.

#![forbid(unsafe_code)]

#[cfg(feature = "admin")]
mod admin;
#[cfg(not(feature = "admin"))]
mod admin_disabled;
mod affinity;
#[cfg(feature = "macros")]
mod attributes;
mod block_on;
pub mod blocking;
mod cache;
mod clock;
mod coalescing;
#[cfg(doctest)]
mod docs;
pub mod embed;
mod error;
mod exit_report;
pub mod fs;
mod io;
pub mod metrics;
pub mod net;
pub mod overload;
mod panics;
mod region;
mod rlimit;
pub mod runtime;
mod select;
pub mod shutdown;
mod shutdown_signal;
mod signals;
#[cfg(feature = "sim")]
pub mod sim;
#[cfg(not(feature = "sim"))]
mod sim_disabled;
mod sleep_cost;
pub mod stage;
mod stall_detector;
mod stuck;
mod supervisor;
mod supervisor_idle;
pub mod sync;
pub mod task;
pub mod time;
mod tracing_events;
mod worker_thread;
mod world;

#[doc(inline)]
pub use phalanx_core::{
    Call, CallError, ExclusiveStage, Graph, PartitionedStage, Session, SharedStage, Stage, join,
    sleep, timeout, yield_now,
};

#[cfg(not(feature = "admin"))]
use admin_disabled as admin;
#[cfg(feature = "macros")]
pub use attributes::{main, test};
pub use runtime::Runtime;
pub use select::select;
#[cfg(not(feature = "sim"))]
use sim_disabled as sim;

/// Called by the code of the attributes.
#[cfg(feature = "macros")]
#[doc(hidden)]
pub mod __private {
    pub use crate::attributes::{Passed, exit_code, run_test};
}
