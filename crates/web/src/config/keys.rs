//! Declarations of all keys of a configuration, each once.

use std::time::Duration;

use phalanx_config::{Keys, Pass, Size};
use phalanx_http::MAX_FIELDS;

use crate::config::values::{
    AcmeChallenges, ErrorPages, ForwardedFields, LogFormats, MaxQueueDelay, Networks,
};
use crate::config::{
    Access, AccessLog, Acme, Alias, Auth, CacheRule, Config, Cors, HeaderRule, HostConfig, Proxy,
    Redirect, RedirectStatus, Rewrite, SecurityHeaders, Tls, TryRule, TypeRule,
};

const MILLISECOND: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

impl Keys for Config {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        let help = "listen addresses: http://ADDR:PORT, https:// for TLS, redirect-https:// to redirect clients to \
                    TLS; the prefix proxy+ expects a PROXY header on each connection; unix:/PATH is a Unix socket \
                    for its owner and group, or with ?mode=666 appended for all users; port 0 selects a free port, \
                    an address alone means http://, and a port alone 127.0.0.1; sockets passed by systemd replace \
                    this list";
        pass.key("listen", &mut self.listen, help);
        pass.include();
        let help = "accept HTTP/2 without TLS from clients with prior knowledge";
        pass.key("h2c", &mut self.h2c, help);
        let help = "also serve HTTP/3 (QUIC), on the UDP ports of the https:// addresses, and announce it to \
                    clients with Alt-Svc";
        pass.key("http3", &mut self.http3, help);
        let help = "UDP port to announce for HTTP/3, if clients reach the server through a port that a firewall or \
                    container maps";
        pass.key("http3-port", &mut self.http3_port, help);
        let help = "port to which redirect-https:// redirects, if clients reach TLS through a port that a firewall \
                    or container maps";
        pass.range("https-port", &mut self.https_port, Some(1).., help);
        let help = "response to a host name that no host lists, if there is no default host";
        pass.key("unknown-host", &mut self.unknown_host, help);
        pass.key("health", &mut self.health, "path of the health check");
        let help = "memory for file contents, shared by all workers";
        pass.key_as::<Size, _>("cache", &mut self.cache_bytes, help);
        let help = "how parts of files of 32 to 512 KiB are sent over HTTP/1.1 without TLS: zero-copy, unless the \
                    file has changed within the last ten seconds, or copy, for files that are written in place";
        pass.key("send", &mut self.send, help);
        let help = "age at which a cached file is checked for changes";
        pass.key("revalidate-interval", &mut self.timeouts.revalidate, help);
        self.limits(pass);
        self.timeouts(pass);
        pass.section("Access log");
        let help = "log every request; true uses the defaults below";
        pass.optional("access-log", &mut self.access_log, help);
        pass.table("runtime", &mut self.runtime);
        pass.section("Automatic certificates");
        let help = "obtain and renew certificates over ACME for hosts that have server-names and no host.tls";
        pass.optional("acme", &mut self.acme, help);
        let is_default = |host: &HostConfig| host.server_names.is_empty();
        pass.section("Hosts");
        pass.list_or_default("host", &mut self.hosts, || HostConfig::new("."), is_default);
    }
}

impl Config {
    fn limits(&mut self, pass: &mut Pass<'_, '_>) {
        pass.section("Limits");
        let help =
            "maximum number of connections; further ones are closed, those without TLS after a 503";
        pass.range("max-connections", &mut self.max_connections, 1.., help);
        let help = "networks whose connections are accepted, such as 10.0.0.0/8 or 2001:db8::/32; if empty, all";
        pass.key_as::<Networks, _>("allow", &mut self.allow, help);
        let help = "networks whose connections are closed without a response, even if `allow` contains them";
        pass.key_as::<Networks, _>("deny", &mut self.deny, help);
        let help = "networks of the proxies and load balancers that are trusted to name their clients; the log, \
                    limits, allow and deny then use the address that they name";
        pass.key_as::<Networks, _>("real-ip-from", &mut self.real_ip_from, help);
        let help = "request field in which trusted proxies name their client; the last address in it that is not \
                    trusted is the client";
        pass.key_as::<ForwardedFields, _>("real-ip-field", &mut self.real_ip_field, help);
        let help = "whether to forward the host and port that trusted proxies name in `X-Forwarded-Host` and \
                    `X-Forwarded-Port` to the servers of `host.proxy`; the trusted proxies must overwrite these \
                    fields, because clients can send them too";
        pass.key("real-ip-host", &mut self.real_ip_host, help);
        let address = &mut self.per_address;
        let help = "maximum number of concurrent connections of one address; further ones are closed, \
                    those without TLS after a 429";
        let at_least_one = Some(1)..;
        pass.range("max-connections-per-address", &mut address.connections, at_least_one, help);
        let help =
            "maximum average rate of requests per second of one address; further requests get 429";
        let rate = &mut address.requests_per_second;
        pass.range("max-request-rate", rate, Some(0.001).., help);
        let help = "additional requests of one address allowed in a burst";
        pass.key("request-burst", &mut address.burst, help);
        let help = "queueing delay above which the server rejects requests with 503, so that it answers admitted \
                    ones within about twice this time; 0 rejects none";
        let most = Some(MINUTE);
        pass.range_as::<MaxQueueDelay, _>(
            "max-queue-delay",
            &mut self.max_queue_delay,
            None..=most,
            help,
        );
        let limits = &mut self.limits;
        let help = "maximum size of a request line; longer ones get 414";
        pass.range_as::<Size, _>("max-request-line", &mut limits.request_line, 1.., help);
        let help = "maximum size of a request head; longer ones get 431";
        pass.range_as::<Size, _>("max-request-head", &mut limits.head, 1.., help);
        let help = "maximum number of header fields of a request; more get 431; over HTTP/2 and HTTP/3 all Cookie \
                    fields count as one";
        pass.range("max-headers", &mut limits.headers, 1..=MAX_FIELDS, help);
        let help = "maximum size of a request body that is read and discarded, because no `host.proxy` applies; \
                    longer ones get 413";
        pass.key_as::<Size, _>("max-request-body", &mut limits.body, help);
        pass.key(
            "max-open-files",
            &mut self.open_files,
            "maximum number of files above 64 KiB, including precompressed ones, that are kept open",
        );
    }

    fn timeouts(&mut self, pass: &mut Pass<'_, '_>) {
        pass.section("Timeouts");
        let timeouts = &mut self.timeouts;
        for (name, time, help) in [
            ("request-timeout", &mut timeouts.request, "time to receive a request head; then 408"),
            ("handshake-timeout", &mut timeouts.handshake, "time to complete a TLS handshake"),
            ("body-timeout", &mut timeouts.body, "time to receive a request body"),
            ("idle-timeout", &mut timeouts.idle, "time between two requests of a connection"),
            (
                "send-timeout",
                &mut timeouts.send,
                "time to send each 128 KiB of a response; over HTTP/2 and HTTP/3, each 8 KiB",
            ),
        ] {
            pass.range(name, time, MILLISECOND..=DAY, help);
        }
        let help = "minimum average rate at which a client must read a large response, in bytes per second";
        pass.key("min-send-rate", &mut timeouts.min_send_rate, help);
    }
}

impl Keys for AccessLog {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        let help = "format of the lines: common, combined, json, or a text with fields such as \"$address $status\"";
        pass.key_as::<LogFormats, _>("format", &mut self.format, help);
        pass.key("target", &mut self.target, "stdout, or a file; a path must contain a slash");
    }
}

impl Keys for HostConfig {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        let help = "names such as example.org or *.example.org; empty for the default host";
        pass.key("server-names", &mut self.server_names, help);
        let help = "directory to serve; files outside of it and names that begin with a dot are not served";
        pass.key("root", &mut self.root, help);
        let help = "files to send for a directory; the first existing one is used";
        pass.key("index", &mut self.index, help);
        let help =
            "list directories without an index file, as HTML or, if requested by Accept, as JSON";
        pass.key("listing", &mut self.listing, help);
        let help = "leave .html out of the URLs of pages: /about sends about.html, and /about.html redirects to /about";
        pass.key("clean-urls", &mut self.clean_urls, help);
        let help = "file to send with status 200 for page requests that match no file, for single-page applications \
                    with client-side routing";
        pass.key("fallback", &mut self.fallback, help);
        let help = "files to send with an error status of this server, as in 404=404.html";
        pass.key_as::<ErrorPages, _>("error-pages", &mut self.error_pages, help);
        let help = "symbolic links that are followed; none leads outside the root or has an absolute target";
        pass.key("symlinks", &mut self.symlinks, help);
        pass.key("charset", &mut self.charset, "charset announced for text");
        let help = "send file.br, file.zst or file.gz instead of the file to clients that accept it, if it exists \
                    and is not older";
        pass.key("precompressed", &mut self.precompressed, help);
        let help = "compress text files in the cache, once per file, for clients that accept it";
        pass.key("compress", &mut self.compress, help);
        let help = "separate access log for requests of this host; has no flag; true uses the defaults below";
        pass.optional_without_flag("access-log", &mut self.access_log, help);
        pass.section("TLS");
        pass.optional("tls", &mut self.tls, "certificate of the host");
        let help = "whether to obtain the certificate over ACME, if `acme` is configured and the host has no \
                    host.tls";
        pass.key_without_flag("acme", &mut self.acme, help);
        pass.section("Response headers");
        let help = "send security headers; true sends those with a default below";
        pass.optional("security-headers", &mut self.security_headers, help);
        pass.optional("cors", &mut self.cors, "cross-origin resource sharing");
        let rule = || CacheRule { path: String::new(), value: String::new(), preset: None };
        pass.list("cache-control", &mut self.cache_control, rule);
        let rule = || HeaderRule::default();
        pass.list("header", &mut self.headers, rule);
        let rule = || TypeRule { path: String::new(), value: String::new() };
        pass.list("content-type", &mut self.content_types, rule);
        pass.section("Redirects, rewrites, proxy and access");
        let status = RedirectStatus::default();
        let rule = || Redirect { from: String::new(), to: String::new(), status };
        pass.list("redirect", &mut self.redirects, rule);
        let rule = || Rewrite { from: String::new(), to: String::new() };
        pass.list("rewrite", &mut self.rewrites, rule);
        let help = "forward requests for a path and all paths below it to another server, as in \
                    /api=http://127.0.0.1:3000; a URL alone applies to all paths; several URLs for one path share \
                    its requests";
        pass.short_list("proxy", &mut self.proxies, Proxy::new, help);
        let rule = || Access { path: "/**".into(), allow: Vec::new(), deny: Vec::new() };
        pass.list("access", &mut self.access, rule);
        let realm = || "restricted".to_owned();
        let rule = || Auth { path: "/**".into(), realm: realm(), users: Default::default() };
        pass.list("auth", &mut self.auth, rule);
        pass.section("Other files");
        let rule = || TryRule { path: "/**".into(), files: Vec::new() };
        pass.list("try-files", &mut self.try_files, rule);
        pass.list("alias", &mut self.aliases, Alias::default);
    }
}

impl Keys for Alias {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        let help = "path below which the files appear, such as /images; the longest path applies";
        pass.required("path", &mut self.path, help);
        pass.required("root", &mut self.root, "directory of the files");
    }
}

impl Keys for TryRule {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        pass.key(
            "path",
            &mut self.path,
            "glob: paths that the rule applies to if they match no file",
        );
        let help = "files to send instead; the first existing one is used, and $path stands for the requested path: \
                    $path.html, /index.html";
        pass.required("files", &mut self.files, help);
    }
}

impl Keys for SecurityHeaders {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        pass.key("nosniff", &mut self.nosniff, "`X-Content-Type-Options: nosniff`");
        pass.key("frame-options", &mut self.frame_options, "`X-Frame-Options`");
        pass.key("referrer-policy", &mut self.referrer_policy, "`Referrer-Policy`");
        let policy = &mut self.content_security_policy;
        pass.key("content-security-policy", policy, "`Content-Security-Policy`");
        pass.key("permissions-policy", &mut self.permissions_policy, "`Permissions-Policy`");
        let help = "`Strict-Transport-Security`, on all responses over TLS to requests for the host: max-age=31536000";
        pass.key("strict-transport-security", &mut self.strict_transport_security, help);
    }
}

impl Keys for Cors {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        let help = "origins that may read responses, such as https://app.example, or * for all";
        pass.required("origins", &mut self.origins, help);
        pass.key("methods", &mut self.methods, "methods these origins may use");
        pass.key("headers", &mut self.headers, "request headers they may send");
        pass.key("expose", &mut self.expose, "response headers they may read");
        pass.key("credentials", &mut self.credentials, "allow credentials such as cookies");
        pass.key("max-age", &mut self.max_age, "time for which browsers may cache this policy");
    }
}

impl Keys for Tls {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        let help = "PEM file with the certificate and its intermediates; a renewed file is loaded at run time";
        pass.required("certificate", &mut self.certificate, help);
        pass.required("key", &mut self.key, "PEM file with the private key of the certificate");
    }
}

impl Keys for Acme {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        let help = "URL of the authority's directory; the default is Let's Encrypt";
        pass.key("directory", &mut self.directory, help);
        let help = "confirms that you accept the authority's terms of service; required";
        pass.key("accept-terms", &mut self.accept_terms, help);
        let help = "e-mail addresses at which the authority can reach you";
        pass.key("contact", &mut self.contact, help);
        let help =
            "folder for the account, the certificates and their keys; created if it does not exist";
        pass.required("storage", &mut self.storage, help);
        let help = "PEM file of the authorities that sign the certificate of the directory's server; false for \
                    those of the system";
        pass.key("ca", &mut self.ca, help);
        let help = "how to prove control of the names: http-01 (port 80), tls-alpn-01 (port 443), or auto: http-01 \
                    if there is an address without TLS at port 80 that other machines can reach, otherwise \
                    tls-alpn-01; after a failure, auto tries the other one if other machines can reach an address \
                    without TLS";
        pass.key_as::<AcmeChallenges, _>("challenge", &mut self.challenge, help);
        let help = "key identifier of your account at the authority, if it requires one";
        pass.key("external-account", &mut self.external_account, help);
        let help = "file with the MAC key of that account, in base64url";
        pass.key("external-key", &mut self.external_key, help);
    }
}

impl Keys for CacheRule {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        pass.required("path", &mut self.path, "glob: files that the rule applies to");
        pass.key("value", &mut self.value, "value of `Cache-Control`, if `preset` is not set");
        let help = "a common value: immutable (kept for a year, for files whose names change with their contents), \
                    revalidate (kept, but checked before each use), day, or never (not stored)";
        pass.key("preset", &mut self.preset, help);
    }
}

impl Keys for TypeRule {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        let help = "glob: files whose extension does not determine their type";
        pass.required("path", &mut self.path, help);
        let help = "their `Content-Type`; host.charset is added to text types without a charset";
        pass.required("value", &mut self.value, help);
    }
}

impl Keys for HeaderRule {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        pass.required("path", &mut self.path, "glob: files that the rule applies to");
        pass.required("name", &mut self.name, "name of a response header");
        pass.required("value", &mut self.value, "its value");
        let help = "also send it with error responses to requests for these paths";
        pass.key("errors", &mut self.errors, help);
    }
}

impl Keys for Redirect {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        pass.required("from", &mut self.from, "path or glob to redirect");
        pass.required("to", &mut self.to, "path or URL of the target");
        let help = "permanent (301, 308) or temporary (302, 307)";
        pass.key("status", &mut self.status, help);
    }
}

impl Keys for Rewrite {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        pass.required("from", &mut self.from, "path or glob to rewrite");
        pass.required("to", &mut self.to, "path that is served instead");
    }
}

impl Keys for Access {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        pass.key(
            "path",
            &mut self.path,
            "glob: paths that the rule applies to; all matching rules must admit a client",
        );
        let help = "networks whose requests are answered, such as 10.0.0.0/8; if empty, all";
        pass.key_as::<Networks, _>("allow", &mut self.allow, help);
        let help = "networks whose requests get 403, even if `allow` contains them";
        pass.key_as::<Networks, _>("deny", &mut self.deny, help);
    }
}

impl Keys for Auth {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        pass.key("path", &mut self.path, "glob: paths that require a password");
        pass.key("realm", &mut self.realm, "realm that browsers show");
        let help = "password file as written by htpasswd -B";
        pass.required("users", &mut self.users, help);
    }
}
