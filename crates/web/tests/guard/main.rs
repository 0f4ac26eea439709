//! What keeps a server well among clients that are not: the access log, limits on addresses and on slow
//! clients, the health path.

mod addresses;
#[path = "../common/mod.rs"]
mod common;
mod harness;
mod health;
mod log;
mod slow;
