//! Tests of the journal through its public API, on a real disk and in simulation.

mod cleaning;
mod common;
mod corruption;
mod power;
mod store;
