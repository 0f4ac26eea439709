//! `phalanx broker` from the outside, with the real binary, sockets and clients.

mod access;
mod admin;
mod answers;
mod commands;
mod configuration;
mod content;
mod drops;
mod durable;
mod events;
mod flow;
mod gauges;
mod limits;
mod migration;
mod mosquitto;
mod peers;
mod process;
mod refusals;
mod restart;
mod retained;
mod sessions;
mod subscriptions;
mod system;
mod tls;
mod validation;
mod websocket;
mod wills;
