//! Tests of the NATS client.

mod codec;
mod server;
mod simulation;
