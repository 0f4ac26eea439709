//! Requests to the driver: starting them, and handling the completions of their operations.

pub(super) mod accept;
mod datagrams;
pub(crate) mod queued;
mod receive;
mod sendfile;
mod start;
mod symlink_owner;
