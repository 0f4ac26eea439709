//! `phalanx web` from the outside: the real binary, real sockets, real files, real curl.
//!
//! Each test starts servers of its own on free ports with trees of their own, so that all of them
//! can run at once; and each runs on every driver that this machine has, or on the one that the
//! environment variable `PHALANX_DRIVER` names.

#![cfg(unix)]

mod activation;
mod admin;
mod admin_pages;
mod arguments;
mod auth;
mod authority;
mod browser;
mod changes;
mod client;
mod compression;
mod conditional;
mod configuration;
mod crowd;
mod curl;
mod descriptors;
mod drain;
mod encodings;
mod fields;
mod figures;
mod files;
mod frames;
mod framing;
mod http2;
mod http2_limits;
mod impatience;
mod instead;
mod large;
mod listings;
mod multipart;
mod openmetrics;
mod overload;
mod process;
mod ranges;
mod redirects;
mod refusals;
mod reload;
mod resources;
mod rules;
mod server;
mod site;
mod tls;
mod top;
mod within;

pub(crate) use server::on_each_driver;
