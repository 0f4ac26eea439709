//! Our own client commands, and compatibility with other programs.

mod commands;
mod migration;
mod mosquitto;
mod peers;
