//! lighttpd; `writev` is best for small files, `sendfile` for large ones.

use std::path::Path;

use super::super::certificate::Certificate;
use super::{Environment, Peer, Tuning};

pub(super) const LIGHTTPD: Peer = Peer {
    program: "lighttpd",
    version: &["-v"],
    install: "apt-get install lighttpd",
    tunings: &[
        Tuning {
            name: "lighttpd",
            configuration: |environment| lighttpd(environment, "writev"),
            arguments: &["-D", "-f", "{}.conf"],
        },
        Tuning {
            name: "lighttpd-sf",
            configuration: |environment| lighttpd(environment, "sendfile"),
            arguments: &["-D", "-f", "{}.conf"],
        },
    ],
    // In a separate package: lighttpd-mod-openssl.
    can: |features| !features.tls || Path::new("/usr/lib/lighttpd/mod_openssl.so").exists(),
    environment: &[],
};

fn lighttpd(environment: &Environment<'_>, backend: &str) -> String {
    let port = environment.port;
    // With 0 it does not fork.
    let workers = if environment.processors > 1 { environment.processors } else { 0 };
    let (here, root) = (environment.directory.display(), environment.root.display());
    let ssl = match environment.certificate {
        None => String::new(),
        Some(Certificate { chain, key }) => format!(
            "server.modules += ( \"mod_openssl\" )\nssl.engine = \"enable\"\n\
             ssl.pemfile = \"{}\"\nssl.privkey = \"{}\"\n",
            chain.display(),
            key.display()
        ),
    };
    let log = match environment.features.log {
        true => format!(
            "server.modules += ( \"mod_accesslog\" )\n\
             accesslog.filename = \"{here}/lighttpd-{port}.access.log\"\n"
        ),
        false => String::new(),
    };
    // The maximum number of requests per connection.
    format!(
        "{ssl}{log}server.document-root = \"{root}\"\n\
         server.bind = \"127.0.0.1\"\n\
         server.port = {port}\n\
         server.errorlog = \"{here}/lighttpd-{port}.log\"\n\
         server.network-backend = \"{backend}\"\n\
         server.event-handler = \"linux-sysepoll\"\n\
         server.stat-cache-engine = \"simple\"\n\
         server.max-keep-alive-requests = 65535\n\
         server.max-keep-alive-idle = 600\n\
         server.max-fds = 20000\n\
         server.max-connections = 16384\n\
         server.listen-backlog = 4096\n\
         server.max-worker = {workers}\n\
         mimetype.assign = ( \".html\" => \"text/html\" )\n"
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::environment;
    use super::*;

    #[test]
    fn it_writes_whole() {
        let text = lighttpd(&environment(false), "writev");
        assert!(text.contains("server.network-backend = \"writev\"\n"));
        assert!(text.contains("server.port = 81\n") && text.contains("\"/d/site\"\n"));
    }
}
