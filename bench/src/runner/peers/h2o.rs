//! h2o with as many threads. Its defaults are tuned for files.

use super::super::features::Certificate;
use super::{Environment, Peer, Tuning};

pub(super) const H2O: Peer = Peer {
    program: "h2o",
    version: &["-v"],
    install: "apt-get install h2o",
    tunings: &[Tuning {
        name: "h2o",
        configuration: h2o,
        arguments: &["-m", "worker", "-c", "{}.conf"],
    }],
    // Not the packaged version.
    can: |features| !features.http3 && !features.proxy,
    environment: &[],
};

fn h2o(environment: &Environment<'_>) -> String {
    let Environment { port, processors, root_user, certificate, features, .. } = *environment;
    let (here, root) = (environment.directory.display(), environment.root.display());
    let user = if root_user { "user: root\n" } else { "" };
    let ssl = match certificate {
        None => String::new(),
        Some(Certificate { chain, key }) => format!(
            "      ssl:\n        certificate-file: {}\n        key-file: {}\n        \
             cipher-preference: client\n        ocsp-update-interval: 0\n",
            chain.display(),
            key.display()
        ),
    };
    let log = match features.log {
        true => format!("access-log: {here}/h2o-{port}.access.log\n"),
        false => String::new(),
    };
    let gzip = if features.gzip { "file.send-compressed: ON\n" } else { "" };
    format!(
        "{user}{log}{gzip}\
         num-threads: {processors}\n\
         max-connections: 16384\n\
         http1-request-timeout: 600\n\
         error-log: {here}/h2o-{port}.log\n\
         hosts:\n\
         \x20 default:\n\
         \x20   listen:\n\
         \x20     host: 127.0.0.1\n\
         \x20     port: {port}\n\
         {ssl}\
         \x20   paths:\n\
         \x20     \"/\":\n\
         \x20       file.dir: {root}\n"
    )
}
