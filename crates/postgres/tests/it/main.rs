//! Queries on a real server, and on a scripted one in simulation.

mod real;
mod simulated;
