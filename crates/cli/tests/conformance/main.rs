//! Conformance to RFC 9110 and RFC 9112: `phalanx web` from the outside, byte by byte.
//!
//! The cases are in `table/`, each with a name and the section that it is about. One server serves
//! all of them, on every driver that this machine has, or on the one that `PHALANX_DRIVER` names. A
//! case that fails tells its request, the answer, the section and what was wanted. More in
//! docs/web/conformance.md.

#![cfg(unix)]

mod case;
mod differential;
mod judge;
mod known;
mod parts;
mod peers;
#[path = "../web/server.rs"]
#[allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "shared with the tests of `web`, which use more of it"
)]
mod server;
mod suite;
mod table;
mod tree;
mod wire;

/// On io_uring, where it is permitted.
#[test]
fn conforms_on_uring() {
    server::on("uring", suite::conforms);
}

/// On epoll, or kqueue.
#[test]
fn conforms_on_poll() {
    server::on("poll", suite::conforms);
}

/// The same bytes to other servers, where there are any.
#[test]
fn differential() {
    differential::differential();
}

/// How other servers fare, where `PHALANX_WITNESSES` asks for it: it says nothing of us.
#[test]
fn witnesses() {
    if std::env::var_os("PHALANX_WITNESSES").is_some() {
        suite::witnesses();
    }
}
