//! Several brokers: bridges and clusters.

mod bridges;
mod cluster;
mod kept;
mod moved;
