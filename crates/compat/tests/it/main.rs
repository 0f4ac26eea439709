//! Streams, futures and threads of others on Phalanx.

mod flushed;
mod simulated;
mod turns;
mod wrong_processor;
