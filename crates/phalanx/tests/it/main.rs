//! Tests of the runtime through its public API, on each available driver and in simulation.

mod runtime;
mod simulation;
