//! Calls on descriptors.

mod files;
mod fortified;
mod names;
mod pipes;
mod polls;
mod repeat;
mod sockets;
pub(crate) mod turns;
mod vectors;
mod wait;

pub(crate) use self::files::close;
pub(crate) use self::names::close_range;
