//! One connection to the server.

mod cancel;
mod exchange;
mod inbox;
mod link;
mod prepare;
mod prepared;
mod result;
pub(crate) mod session;
mod startup;
mod wire;
