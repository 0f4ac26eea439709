//! Tests of the handshake and of the frames through their public API.

mod frames;
mod upgrade;
