//! The tools on small C servers that the tests compile.

mod common;
mod event_loop;
mod frees;
mod memwalk;
mod programs;
mod server;
mod servers;
mod sizes;
mod stingify;
mod touch;
mod traced;
