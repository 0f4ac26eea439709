//! The thread of a processor.

mod coalescing;
mod hot_code;
mod sleep_cost;
mod thread;
mod thread_scope;
mod wake_prefetch;
mod world;

pub(crate) use self::thread::{WorkerOptions, WorkerThread};
