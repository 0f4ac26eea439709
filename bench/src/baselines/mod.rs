//! Servers of this program that Phalanx is compared with: a bare loop and a threaded twin.

pub mod floor;
pub mod twin;

/// Announces the listening address on standard output, as `phalanx web` does.
pub(crate) fn announce(address: std::net::SocketAddr) {
    use std::io::Write;
    let mut out = std::io::stdout();
    let _ = writeln!(out, "listening on http://{address}").and_then(|()| out.flush());
}
