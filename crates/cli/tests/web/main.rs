//! `phalanx web` from the outside, with the real binary, sockets, files and curl.
//!
//! Each test starts its own servers on free ports with its own files, so that tests can run concurrently. Each
//! runs on every driver of this machine, or on the one named by the environment variable `PHALANX_DRIVER`.

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
mod confinement;
mod curl;
mod descriptors;
mod drain;
mod encodings;
mod fallback;
mod fields;
mod files;
mod frames;
mod framing;
mod http2;
mod http2_limits;
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
mod slow_clients;
mod timeouts;
mod tls;
mod top;

pub(crate) use server::on_each_driver;
