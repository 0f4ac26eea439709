//! The thread of a processor.

mod coalescing;
mod sleep_cost;
mod thread;
mod thread_scope;
mod world;

pub(crate) use self::thread::{WorkerOptions, WorkerThread};
pub(crate) use self::thread_scope::ThreadScope;
