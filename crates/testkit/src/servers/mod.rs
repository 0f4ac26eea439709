//! Server processes: started for a test, killed at its end.

pub mod nats;
pub mod postgres;
pub mod process;
pub mod procfs;
