//! Locks, and other objects in memory for which threads wait.

pub(crate) mod barriers;
pub(crate) mod conditions;
pub(super) mod futexes;
pub(crate) mod mutexes;
mod rwlocks;
mod semaphores;
