//! Encrypted streams in simulations.

mod client;
mod polled;
