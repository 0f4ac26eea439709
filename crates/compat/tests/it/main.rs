//! Streams, futures and threads of others on Phalanx.

mod elsewhere;
mod flushed;
mod simulated;
mod turns;
