//! The other servers' configurations, each as good as is known for small static files.

use std::path::Path;

/// nginx with one worker. Without `sendfile` it is the faster with small files.
pub(crate) fn nginx(
    directory: &Path,
    root: &Path,
    port: u16,
    sendfile: bool,
    root_user: bool,
) -> String {
    let (here, root) = (directory.display(), root.display());
    let send = if sendfile { "sendfile on;\n  tcp_nopush on;" } else { "sendfile off;" };
    // Workers give up root's rights, and then may not read the temporary directory.
    let user = if root_user { "user root;\n" } else { "" };
    let scratch: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("  {kind}_temp_path {here}/nginx-{port}-{kind};\n"))
        .collect();
    format!(
        "daemon off;\n\
         worker_processes 1;\n\
         worker_rlimit_nofile 16384;\n\
         {user}\
         pid {here}/nginx-{port}.pid;\n\
         error_log {here}/nginx-{port}.log crit;\n\
         events {{\n  worker_connections 8192;\n  multi_accept on;\n}}\n\
         http {{\n\
         \x20 types {{ text/html html; }}\n\
         \x20 default_type application/octet-stream;\n\
         \x20 access_log off;\n\
         \x20 {send}\n\
         \x20 tcp_nodelay on;\n\
         \x20 keepalive_timeout 600s;\n\
         \x20 keepalive_requests 1000000000;\n\
         \x20 open_file_cache max=4096 inactive=600s;\n\
         \x20 open_file_cache_valid 600s;\n\
         \x20 open_file_cache_min_uses 1;\n\
         {scratch}\
         \x20 server {{\n\
         \x20   listen 127.0.0.1:{port} backlog=4096;\n\
         \x20   root {root};\n\
         \x20 }}\n\
         }}\n"
    )
}

/// lighttpd with one worker; `writev` is its best way for small files.
pub(crate) fn lighttpd(directory: &Path, root: &Path, port: u16) -> String {
    let (here, root) = (directory.display(), root.display());
    // More requests on a connection than this it cannot count.
    format!(
        "server.document-root = \"{root}\"\n\
         server.bind = \"127.0.0.1\"\n\
         server.port = {port}\n\
         server.errorlog = \"{here}/lighttpd-{port}.log\"\n\
         server.network-backend = \"writev\"\n\
         server.event-handler = \"linux-sysepoll\"\n\
         server.stat-cache-engine = \"simple\"\n\
         server.max-keep-alive-requests = 65535\n\
         server.max-keep-alive-idle = 600\n\
         server.max-fds = 16384\n\
         server.max-connections = 8192\n\
         server.listen-backlog = 4096\n\
         server.max-worker = 0\n\
         mimetype.assign = ( \".html\" => \"text/html\" )\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nginx_in_both_tunings() {
        let text =
            |sendfile, user| nginx(Path::new("/d"), Path::new("/d/site"), 81, sendfile, user);
        let fast = text(true, false);
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
        assert!(!fast.contains("user ") && text(false, true).contains("\nuser root;\n"));
        assert!(text(false, false).contains("  sendfile off;\n"));
        assert!(!text(false, false).contains("nopush"));
    }

    #[test]
    fn lighttpd_writes_whole() {
        let text = lighttpd(Path::new("/d"), Path::new("/d/site"), 82);
        assert!(text.contains("server.network-backend = \"writev\"\n"));
        assert!(text.contains("server.port = 82\n") && text.contains("\"/d/site\"\n"));
    }
}
