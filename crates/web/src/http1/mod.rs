//! HTTP/1.1 connections (RFC 9112).
//!
//! | file | idea |
//! |---|---|
//! | `connection.rs` | one connection: requests in order, their responses gathered |
//! | `input.rs` | waits for input, discards request bodies, lingers before closing |
//! | `proxied.rs` | requests that other servers answer |

mod connection;
mod input;
mod proxied;

pub(crate) use connection::Connection;
