//! Caddy, with as many processors of Go.

use super::super::features::Certificate;
use super::{Environment, Peer, Tuning};

pub(super) const CADDY: Peer = Peer {
    program: "caddy",
    version: &["version"],
    install: "apt-get install caddy",
    can: |features| !features.proxy,
    tunings: &[Tuning {
        name: "caddy",
        configuration: caddy,
        arguments: &["run", "--adapter", "caddyfile", "--config", "{}.conf"],
    }],
    // Its garbage collector runs less often with more memory; more threads than processors only contend.
    environment: &[("GOMAXPROCS", "{processors}"), ("GOGC", "400")],
};

fn caddy(environment: &Environment<'_>) -> String {
    let (port, root) = (environment.port, environment.root.display());
    let here = environment.directory.display();
    let tls = match environment.certificate {
        None => String::new(),
        Some(Certificate { chain, key }) => {
            format!("\ttls {} {}\n", chain.display(), key.display())
        }
    };
    let log = match environment.features.log {
        true => format!(
            "\tlog {{\n\t\toutput file {here}/caddy-{port}.access.log {{\n\t\t\troll_disabled\n\t\t}}\n\t}}\n"
        ),
        false => String::new(),
    };
    let gzip = if environment.features.gzip { " {\n\t\tprecompressed gzip\n\t}" } else { "" };
    format!(
        "{{\n\tadmin off\n\tauto_https off\n\tlog {{\n\t\tlevel ERROR\n\t}}\n}}\n\
         :{port} {{\n{tls}{log}\tbind 127.0.0.1\n\troot * {root}\n\tfile_server{gzip}\n}}\n"
    )
}
