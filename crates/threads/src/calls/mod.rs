//! The replaced functions of the C library.

mod attributes;
mod conditions;
mod descriptors;
mod files;
mod home_calls;
mod mutexes;
mod rwlocks;
mod semaphores;
mod signals;
mod sleeps;
mod sockets;
mod threads;

/// Forgets the threads that the parent was about to start, in a child process.
pub(crate) fn reset() {
    threads::reset();
}
