//! Locks, and other objects in memory for which threads wait.

pub(crate) mod barriers;
mod conditions;
mod futexes;
mod mutexes;
mod rwlocks;
mod semaphores;
