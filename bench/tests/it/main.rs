//! The load generator, the experiments and the command.

mod command;
mod figures;
mod load;
mod servers;
mod tls;
mod web;
