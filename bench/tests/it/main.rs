//! The load generator, the experiments and the command.

mod axum;
mod command;
mod figures;
mod load;
mod servers;
mod tls;
mod web;
