//! static-web-server, with one thread; it is told everything by arguments.

use super::{Ground, Peer, Tuning};

pub(super) const SWS: Peer = Peer {
    program: "static-web-server",
    folders: &[],
    version: &["--version"],
    install: "cargo install static-web-server",
    // It has TLS with HTTP/2 only.
    tls: || false,
    tunings: &[Tuning { name: "sws", configuration: sws, arguments: &["--config-file", "{}"] }],
    environment: &[],
};

fn sws(ground: &Ground<'_>) -> String {
    let (port, root) = (ground.port, ground.root.display());
    format!(
        "[general]\n\
         host = \"127.0.0.1\"\n\
         port = {port}\n\
         root = \"{root}\"\n\
         log-level = \"error\"\n\
         threads-multiplier = 1\n\
         compression = false\n\
         cache-control-headers = false\n"
    )
}
