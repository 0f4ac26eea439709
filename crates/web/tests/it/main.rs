//! Tests of the web server in this process, on real sockets and in simulation.

mod active;
mod common;
mod compression;
mod configuration;
mod dates;
mod files;
mod full;
mod guard;
mod handshakes;
mod http2;
mod http3;
mod moves;
mod moves_after_reload;
mod patience;
mod patience_after_reload;
mod proxy;
mod reloads;
mod simulation;
mod symlinks;
