//! static-web-server, configured by arguments.

use super::super::certificate::Certificate;
use super::{Environment, Peer, Tuning};

pub(super) const SWS: Peer = Peer {
    program: "static-web-server",
    version: &["--version"],
    install: "cargo xtask peers",
    // It has TLS with HTTP/2 only, and its log contains more than requests.
    can: |features| features.tls == features.http2 && !features.log && !features.http3,
    tunings: &[Tuning {
        name: "sws",
        configuration: sws,
        arguments: &["--config-file", "{}.toml"],
    }],
    environment: &[],
};

fn sws(environment: &Environment<'_>) -> String {
    let (port, root) = (environment.port, environment.root.display());
    // Threads per core that it may use.
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = environment.processors.div_ceil(cores);
    let gzip = environment.features.gzip;
    let tls = match environment.certificate {
        None => String::new(),
        Some(Certificate { chain, key }) => format!(
            "http2 = true\nhttp2-tls-cert = \"{}\"\nhttp2-tls-key = \"{}\"\n",
            chain.display(),
            key.display()
        ),
    };
    format!(
        "[general]\n\
         host = \"127.0.0.1\"\n\
         port = {port}\n\
         root = \"{root}\"\n\
         log-level = \"error\"\n\
         threads-multiplier = {threads}\n\
         compression = false\n\
         compression-static = {gzip}\n\
         cache-control-headers = false\n\
         {tls}"
    )
}
