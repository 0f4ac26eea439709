//! nginx with and without `sendfile`; without it is faster with small files.

use super::super::features::Certificate;
use super::{Environment, Peer, Tuning};

pub(super) const NGINX: Peer = Peer {
    program: "nginx",
    version: &["-v"],
    install: "apt-get install nginx-light",
    tunings: &[
        Tuning {
            name: "nginx",
            configuration: |environment| nginx(environment, true),
            arguments: &["-c", "{}.conf"],
        },
        Tuning {
            name: "nginx-nosf",
            configuration: |environment| nginx(environment, false),
            arguments: &["-c", "{}.conf"],
        },
    ],
    // Not the packaged version.
    can: |features| !features.http3,
    environment: &[],
};

fn nginx(environment: &Environment<'_>, sendfile: bool) -> String {
    let Environment { port, processors, root_user, certificate, features, .. } = *environment;
    let (here, root) = (environment.directory.display(), environment.root.display());
    let send = if sendfile { "sendfile on;\n  tcp_nopush on;" } else { "sendfile off;" };
    // Workers drop root's rights and could not read the temporary directory.
    let user = if root_user { "user root;\n" } else { "" };
    let scratch: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("  {kind}_temp_path {here}/nginx-{port}-{kind};\n"))
        .collect();
    let (ssl, lines) = match certificate {
        None => ("", String::new()),
        Some(Certificate { chain, key }) => {
            let (chain, key) = (chain.display(), key.display());
            // Its older versions do not offer TLS 1.3 by default.
            let lines = format!(
                "    ssl_protocols TLSv1.2 TLSv1.3;\n    ssl_certificate {chain};\n    ssl_certificate_key {key};\n"
            );
            (if features.http2 { " ssl http2" } else { " ssl" }, lines)
        }
    };
    // Several workers share the connections evenly only with a socket each.
    let (accept, reuse) = if processors > 1 { ("off", " reuseport") } else { ("on", "") };
    let log = match features.log {
        true => format!("{here}/nginx-{port}.access.log combined buffer=64k flush=1s"),
        false => "off".to_owned(),
    };
    // Keeps the connections, as Phalanx does, and sends the fields that most servers behind a proxy need.
    let (upstream, forward) = match environment.upstream {
        None => (String::new(), ""),
        Some(address) => (
            format!(
                "  upstream servers {{\n    server {address};\n    keepalive 1024;\n    \
                 keepalive_requests 1000000000;\n  }}\n"
            ),
            "    location / {\n      proxy_pass http://servers;\n      proxy_http_version 1.1;\n      \
             proxy_buffer_size 8k;\n      proxy_set_header Connection \"\";\n      \
             proxy_set_header Host $http_host;\n      proxy_set_header X-Forwarded-For $remote_addr;\n      \
             proxy_set_header X-Forwarded-Proto $scheme;\n    }\n",
        ),
    };
    let gzip = if features.gzip { "  gzip_static on;\n" } else { "" };
    format!(
        "daemon off;\n\
         worker_processes {processors};\n\
         worker_rlimit_nofile 20000;\n\
         {user}\
         pid {here}/nginx-{port}.pid;\n\
         error_log {here}/nginx-{port}.log crit;\n\
         events {{\n  worker_connections 16384;\n  multi_accept {accept};\n}}\n\
         http {{\n\
         \x20 types {{ text/html html; }}\n\
         \x20 default_type application/octet-stream;\n\
         \x20 access_log {log};\n\
         \x20 {send}\n\
         \x20 tcp_nodelay on;\n\
         \x20 keepalive_timeout 600s;\n\
         \x20 keepalive_requests 1000000000;\n\
         \x20 open_file_cache max=4096 inactive=600s;\n\
         \x20 open_file_cache_valid 600s;\n\
         \x20 open_file_cache_min_uses 1;\n\
         {gzip}{scratch}{upstream}\
         \x20 server {{\n\
         \x20   listen 127.0.0.1:{port}{ssl} backlog=4096{reuse};\n\
         {lines}\
         \x20   root {root};\n\
         {forward}\
         \x20 }}\n\
         }}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::environment;
    use super::*;

    #[test]
    fn tunings() {
        let fast = nginx(&environment(false), true);
        for line in [
            "  sendfile on;\n",
            "  tcp_nopush on;\n",
            "    listen 127.0.0.1:81 backlog=4096;\n",
            "    root /d/site;\n",
            "  access_log off;\n",
            "daemon off;\n",
            "  proxy_temp_path /d/nginx-81-proxy;\n",
        ] {
            assert!(fast.contains(line), "{line:?} in {fast}");
        }
        assert_eq!(fast.matches('{').count(), fast.matches('}').count());
        let plain = nginx(&environment(true), false);
        assert!(!fast.contains("user ") && plain.contains("\nuser root;\n"));
        assert!(plain.contains("  sendfile off;\n") && !plain.contains("nopush"));
        let upstream = Some(([127, 0, 0, 1], 82).into());
        let proxy = nginx(&Environment { upstream, ..environment(false) }, true);
        for line in ["    server 127.0.0.1:82;\n", "      proxy_pass http://servers;\n"] {
            assert!(proxy.contains(line) && !fast.contains(line), "{line:?} in {proxy}");
        }
    }
}
