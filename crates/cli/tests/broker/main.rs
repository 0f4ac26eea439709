//! `phalanx broker` from the outside, with the real binary, sockets and clients.
//!
//! Each test starts its own brokers on free ports, so that tests can run concurrently. Each runs on every driver
//! of this machine, or on the one named by the environment variable `PHALANX_DRIVER`.

#![cfg(unix)]

mod access;
mod answers;
#[path = "../web/authority.rs"]
#[allow(dead_code, reason = "shared with the tests of `web`")]
mod authority;
mod broker;
mod client;
mod commands;
mod configuration;
mod content;
mod drops;
mod durable;
mod flow;
mod limits;
mod mosquitto;
mod peers;
mod refusals;
mod restart;
mod retained;
#[path = "../web/server.rs"]
#[allow(dead_code, reason = "shared with the tests of `web`, which use more of it")]
mod server;
mod sessions;
mod subscriptions;
mod system;
mod tls;
mod validation;
mod websocket;
mod wills;

pub(crate) use server::on_each_driver;
