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
