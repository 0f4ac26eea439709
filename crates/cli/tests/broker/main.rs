//! `phalanx broker` from the outside: the real binary, real sockets, real clients.
//!
//! Each test starts brokers of its own on free ports, so that all of them can run at once; and each runs on
//! every driver that this machine has, or on the one that the environment variable `PHALANX_DRIVER` names.

#![cfg(unix)]

mod access;
mod answers;
#[path = "../web/authority.rs"]
#[allow(dead_code, reason = "shared with the tests of `web`")]
mod authority;
mod bench;
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
