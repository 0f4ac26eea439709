//! static-web-server, configured by arguments.

use super::super::features::Certificate;
use super::{Environment, Peer, Tuning};

pub(super) const SWS: Peer = Peer {
    program: "static-web-server",
    version: &["--version"],
    install: "cargo xtask peers",
    // It has TLS with HTTP/2 only, and its log contains more than requests.
    can: |features| {
        features.tls == features.http2 && !features.log && !features.http3 && !features.proxy
    },
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
    let threads = environment.processors.div_ceil(environment.cores.max(1));
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

#[cfg(test)]
mod tests {
    use super::super::tests::environment;
    use super::*;

    #[test]
    fn threads_are_counted_for_the_cores_of_the_server() {
        for (processors, cores, threads) in [(4, 4, 1), (4, 2, 2), (4, 1, 4), (1, 4, 1)] {
            let text = sws(&Environment { processors, cores, ..environment(true) });
            assert!(text.contains(&format!("threads-multiplier = {threads}\n")), "{text}");
        }
    }
}
