//! A runtime for servers that batches similar operations of different requests.
//!
//! A server is a set of *stages*, declared on a [`Graph`]. A stage has a name, state, and a policy that determines how
//! operations access the state. An *operation* is an asynchronous call on a stage, written as an `async` closure. Each
//! processor (a thread on a core) runs a whole *cohort* of one stage's operations before it visits the next stage, so
//! the costs of cache misses and system calls are shared by the operations of a cohort.
//!
//! ```
//! use std::collections::HashMap;
//! use phalanx::{CallError, Graph, PartitionedStage};
//!
//! type Counts = PartitionedStage<HashMap<u64, u32>>;
//!
//! fn declare(graph: &mut Graph) -> Counts {
//!     graph.partitioned("counts", |_partition| HashMap::new())
//! }
//!
//! #[phalanx::main(processors = 2, stages = declare)]
//! async fn main(counts: Counts) -> Result<(), CallError> {
//!     for key in [3, 5, 3] {
//!         // Runs on the processor that owns the key, so the map needs no lock.
//!         let count = counts.call(key, move |counts| async move {
//!             counts.with(|counts| *counts.entry(key).and_modify(|n| *n += 1).or_insert(1))
//!         });
//!         println!("{key}: {}", count.await?);
//!     }
//!     Ok(())
//! }
//! ```
//!
//! Use [`macro@main`] for programs with one main function. A server uses [`Runtime::run`] instead and starts operations
//! on each processor:
//!
//! ```no_run
//! use phalanx::net::{IoTimeout, Listeners};
//! use phalanx::{Graph, Runtime};
//!
//! let mut graph = Graph::new();
//! let clients = graph.shared("clients", ());
//! let listeners = Listeners::bind("127.0.0.1:7000".parse()?, 2)?;
//! Runtime::new().processors(2).run(graph, |start| {
//!     let listener = listeners.listener(start)?;
//!     clients.dispatch(move |_| {
//!         listener.accept_each(move |stream| {
//!             let _ = clients.dispatch(move |_| async move {
//!                 let _ = stream.write(b"hello\n".to_vec(), IoTimeout::NONE).await;
//!             });
//!         })
//!     })?;
//!     Ok(())
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The root contains the names that nearly every program uses. The rest is in modules:
//!
//! | module | contents |
//! |---|---|
//! | [`runtime`] | running a program: options, errors, the exit report |
//! | [`stage`] | handles, policies and options of stages |
//! | [`task`] | operations: calls, replies, joins, sessions |
//! | [`sync`] | events and queues between operations, and from other threads |
//! | [`time`] | clocks and timers |
//! | [`net`], [`fs`] | sockets and files |
//! | [`fibre`] | operations written as blocking code |
//! | [`blocking`] | blocking calls on a thread pool |
//! | [`foreign`] | operations that other threads start |
//! | [`shutdown`] | graceful shutdown |
//! | [`overload`] | admission, load shedding, backpressure |
//! | [`metrics`] | counters, profiles and snapshots |
//! | [`sim`] | deterministic simulation of a whole program |
//! | [`embed`] | the scheduler without the runtime |
//!
//! Features, all enabled by default except `metrics` and `tracing`:
//!
//! | feature | contents |
//! |---|---|
//! | `admin` | the admin pages: [`Runtime::admin`]; implies `serde` |
//! | `fibre` | the module [`fibre`] |
//! | `serde` | `Serialize` and `Deserialize` for the snapshots in [`metrics`] |
//! | `sim` | the module [`sim`] |
//! | `metrics` | [`metrics`]`::Recorder`, for the macros of the crate `metrics` |
//! | `macros` | the attributes [`macro@main`] and [`macro@test`] |
//! | `tracing` | events for the crate `tracing` |
//!
//! The scheduler is the crate `phalanx-core`; the drivers for io_uring, epoll and kqueue are in `phalanx-driver`.

#![forbid(unsafe_code)]

#[cfg_attr(not(feature = "admin"), path = "admin/disabled.rs")]
mod admin;
#[cfg(feature = "macros")]
mod attributes;
pub mod blocking;
mod cores;
mod diagnostics;
#[cfg(doctest)]
mod docs;
pub mod embed;
#[cfg(feature = "fibre")]
pub mod fibre;
pub mod foreign;
pub mod fs;
mod io;
mod lock;
mod machine;
pub mod metrics;
mod nanoseconds;
pub mod net;
pub mod overload;
mod program;
pub mod runtime;
mod scaling;
pub mod shutdown;
#[cfg(feature = "sim")]
pub mod sim;
pub mod stage;
mod supervisor;
pub mod sync;
pub mod task;
pub mod time;
mod worker;

#[doc(inline)]
pub use phalanx_core::{
    Call, CallError, ExclusiveStage, Graph, PartitionedStage, Session, SharedStage, Stage, join,
    sleep, timeout, yield_now,
};

#[cfg(feature = "macros")]
pub use attributes::{main, test};
pub use runtime::Runtime;
pub use task::select;

/// Called by code that the attributes generate.
#[cfg(feature = "macros")]
#[doc(hidden)]
pub mod __private {
    pub use crate::attributes::{TestOutput, exit_code, run_test};
}
