//! The replaced functions of the C library.

mod attributes;
pub(crate) mod barriers;
mod conditions;
mod descriptors;
mod files;
mod fortified;
mod futexes;
mod home_calls;
pub(crate) mod joins;
mod mutexes;
mod polls;
mod rwlocks;
mod semaphores;
mod signals;
mod sleeps;
mod sockets;
mod threads;
mod vectors;

/// Forgets the threads that the parent was about to start, in a child process.
pub(crate) fn reset() {
    threads::reset();
}
