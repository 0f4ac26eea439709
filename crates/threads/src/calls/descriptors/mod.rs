//! Calls on descriptors.

mod files;
mod fortified;
mod names;
mod polls;
mod repeat;
mod sockets;
mod vectors;
mod wait;
