//! Tests of the broker in this process, on real sockets and in simulation.

mod active;
mod bridges;
mod cluster;
mod common;
mod configuration;
mod simulation;
mod storm;
