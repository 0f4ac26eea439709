//! Tests of the NATS client.

mod codec;
mod jetstream;
mod server;
mod simulation;
mod streams;
