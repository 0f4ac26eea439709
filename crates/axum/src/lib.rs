//! Serves axum applications on [Phalanx](phalanx): the same `Router`, without a change to its handlers.
//!
//! ```no_run
//! use axum::{Router, routing::get};
//!
//! # fn main() -> Result<(), phalanx_axum::ServeError> {
//! let app = Router::new().route("/", get(|| async { "hello" }));
//! phalanx_axum::serve("127.0.0.1:3000", app).run()
//! # }
//! ```
//!
//! With the feature `tokio`, a program of tokio changes one line, from `axum::serve(listener, app)`:
//!
//! ```no_run
//! # #[cfg(feature = "tokio")]
//! # async fn example(app: axum::Router) -> std::io::Result<()> {
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
//! phalanx_axum::serve(listener, app).await
//! # }
//! ```
//!
//! Each connection is an operation that runs hyper's HTTP/1.1 or HTTP/2. Each request is a call on the stage *requests*,
//! which runs as a part of the connection's operation, or in one cohort with all requests that arrived together
//! ([`Options::cohorts`]). A handler that panics is answered with 500, and with cohorts a request
//! that finds the stage full with 503. A connection without a request for 75 seconds is closed
//! ([`Options::header_timeout`]). When the program drains, connections end after their current requests.
//!
//! | feature | content |
//! |---|---|
//! | `tls` | TLS with reloaded certificates |
//! | `tracing` | a span for each request, with its method, path, version, stage and status |
//! | `tokio` | servers within programs of tokio, and tokio as a side runtime for code that needs its reactor |
//!
//! [`Stages`] are for programs with other stages, which handlers call, and for [simulations](phalanx::sim).

#![forbid(unsafe_code)]

mod connection;
#[cfg(doctest)]
mod docs;
mod listen;
mod server;
mod services;
mod span;
mod stages;
#[cfg(feature = "tokio")]
mod within_tokio;

#[cfg(feature = "tls")]
pub use phalanx_tls as tls;

pub use listen::Listen;
pub use server::{ServeError, Server, serve};
pub use services::{ForConnections, ForRequests, HttpService, Services};
pub use stages::{Options, Stages};
#[cfg(feature = "tokio")]
pub use within_tokio::Serving;
