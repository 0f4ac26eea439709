//! Calls on descriptors.

mod files;
mod fortified;
mod names;
mod pipes;
mod polls;
mod repeat;
pub(crate) mod sockets;
mod vectors;
mod wait;

pub(crate) use self::files::close;
