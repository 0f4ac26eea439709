//! The tools on small C servers that the tests compile.

mod common;
mod memwalk;
mod servers;
mod stingify;
mod touch;
