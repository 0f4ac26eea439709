//! Requests to the driver: starting them, and handling the completions of their operations.

mod accept;
mod datagrams;
mod receive;
mod sendfile;
mod start;
mod symlink_owner;
