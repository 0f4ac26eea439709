//! Calls on descriptors.

mod files;
mod fortified;
mod polls;
mod repeat;
mod sockets;
mod vectors;
mod wait;
