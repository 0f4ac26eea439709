//! lighttpd; `writev` is best for small files, `sendfile` for large ones.

use std::path::Path;

use super::super::features::Certificate;
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
    // In separate packages: lighttpd-mod-openssl, lighttpd-mod-deflate.
    can: |features| {
        let has = |module: &str| Path::new("/usr/lib/lighttpd").join(module).exists();
        !features.http3
            && !features.proxy
            && (!features.tls || has("mod_openssl.so"))
            && (!features.gzip || has("mod_deflate.so"))
    },
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
    let gzip = match environment.features.gzip {
        true => format!(
            "server.modules += ( \"mod_deflate\" )\n\
             deflate.mimetypes = ( \"text/\", \"application/json\" )\n\
             deflate.allowed-encodings = ( \"gzip\" )\n\
             deflate.cache-dir = \"{here}/lighttpd-{port}-deflate\"\n"
        ),
        false => String::new(),
    };
    // It never answers with 304 for a file without a type.
    let types = [
        (".html", "text/html"),
        (".css", "text/css"),
        (".js", "text/javascript"),
        (".json", "application/json"),
        (".jpg", "image/jpeg"),
        (".woff2", "font/woff2"),
    ];
    let types = types.map(|(ending, kind)| format!("\"{ending}\" => \"{kind}\"")).join(", ");
    // The maximum number of requests per connection.
    format!(
        "{ssl}{log}{gzip}server.document-root = \"{root}\"\n\
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
         mimetype.assign = ( {types} )\n"
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
