//! The crate as a server for clients at the level of frames, and for the crate `h2`.

mod client;
mod connection;
mod content;
mod floods;
mod peer;
mod splits;
