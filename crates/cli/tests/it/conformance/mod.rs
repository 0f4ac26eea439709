//! Conformance of `phalanx web` to RFC 9110 and RFC 9112, byte by byte.
//!
//! The cases are in `table/`, each with a name and the section it tests. One server serves all of them, on every
//! driver of this machine, or on the one named by `PHALANX_DRIVER`. A failing case reports its request, the
//! response, the section and the requirement. See docs/web/conformance.md.

mod case;
mod check_case;
mod differential;
mod escape;
mod known;
mod parts;
mod peers;
mod suite;
mod table;
mod tree;

/// On io_uring, where it is available.
#[test]
fn conforms_on_uring() {
    crate::server::on("uring", suite::conforms);
}

/// On epoll or kqueue.
#[test]
fn conforms_on_poll() {
    crate::server::on("poll", suite::conforms);
}

/// Compares with other servers, if installed.
#[test]
fn differential() {
    differential::differential();
}

/// Runs the cases on other servers if `PHALANX_OTHER_SERVERS` is set, for information only.
#[test]
fn other_servers() {
    if std::env::var_os("PHALANX_OTHER_SERVERS").is_some() {
        suite::other_servers();
    }
}
