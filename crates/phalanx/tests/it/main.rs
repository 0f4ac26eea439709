//! Tests of the runtime through its public API, on each available driver and in simulation.

#[cfg(unix)]
#[path = "../common/drivers.rs"]
mod drivers;
mod runtime;
mod simulation;
