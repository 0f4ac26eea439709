//! Configuration, persistence, monitoring and the admin API.

mod admin;
mod configuration;
mod drops;
mod durable;
mod events;
mod gauges;
mod restart;
mod system;
