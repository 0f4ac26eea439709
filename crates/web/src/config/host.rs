//! Configuration of one virtual host.

use std::path::PathBuf;

use phalanx::fs::SymlinkPolicy;
use phalanx_config::settings;

use crate::config::limits::AccessLog;
use crate::config::proxy::Proxy;
use crate::config::rules::{
    Access, Alias, Auth, CacheRule, Cors, HeaderRule, Redirect, Rewrite, SecurityHeaders, TryRule,
    TypeRule,
};
use crate::config::values::ErrorPages;

settings! {
    /// A virtual host: its names, files and rules.
    #[derive(Clone, Debug, PartialEq)]
    pub struct HostConfig {
        /// Names without ports: `example.org`, or `*.example.org` for all subdomains. A host without names is the
        /// default host.
        pub server_names: Vec<String>
            => key("server-names", "names such as example.org or *.example.org; empty for the default host");
        /// Root directory of the files. Nothing outside it is ever served.
        pub root: PathBuf = ".".into()
            => key("root", "directory to serve; files outside of it and names that begin with a dot are not served");
        /// Index files of a directory, in order of preference.
        pub index: Vec<String> = vec!["index.html".into()]
            => key("index", "files to send for a directory; the first existing one is used");
        /// Whether directories without an index file are listed.
        pub listing: bool
            => key("listing", "list directories without an index file, as HTML or, if requested by Accept, as JSON");
        /// Whether the URLs of pages omit `.html`: `/about` serves `about.html`, and `/about.html` redirects to
        /// `/about`.
        pub clean_urls: bool
            => key("clean-urls",
                "leave .html out of the URLs of pages: /about sends about.html, and /about.html redirects to /about");
        /// File served with 200 for paths that do not exist, as single-page applications require.
        pub fallback: Option<String>
            => key("fallback",
                "file to send with status 200 for page requests that match no file, for single-page applications \
                 with client-side routing");
        /// Error pages by status, for example 404 and `404.html`.
        pub error_pages: Vec<(u16, String)>
            => key_as::<ErrorPages>("error-pages",
                "files to send with an error status of this server, as in 404=404.html");
        /// Which symbolic links are followed.
        pub symlinks: Symlinks
            => key("symlinks",
                "symbolic links that are followed; none leads outside the root or has an absolute target");
        /// Charset declared for text; `None` declares none.
        pub charset: Option<String> = Some("utf-8".into())
            => key("charset", "charset announced for text");
        /// Whether to serve `file.br`, `file.zst` or `file.gz` instead of `file` to clients that accept the
        /// encoding.
        pub precompressed: bool
            => key("precompressed",
                "send file.br, file.zst or file.gz instead of the file to clients that accept it, if it exists and \
                 is not older");
        /// Whether to compress text and cache the result.
        pub compress: bool
            => key("compress", "compress text files in the cache, once per file, for clients that accept it");
        /// Separate access log of the host; `None` uses the server's log.
        pub access_log: Option<AccessLog>
            => optional_without_flag("access-log",
                "separate access log for requests of this host; has no flag; true uses the defaults below");
        @section "TLS";
        /// The host's certificate.
        pub tls: Option<Tls> => optional("tls", "certificate of the host");
        /// Whether to obtain a certificate over ACME, if it is configured and the host has names and no `tls`.
        pub acme: bool = true
            => key_without_flag("acme",
                "whether to obtain the certificate over ACME, if `acme` is configured and the host has no host.tls");
        @section "Response headers";
        /// Security header fields.
        pub security_headers: Option<SecurityHeaders>
            => optional("security-headers", "send security headers; true sends those with a default below");
        /// Cross-origin resource sharing.
        pub cors: Option<Cors> => optional("cors", "cross-origin resource sharing");
        /// `Cache-Control` by path; the first matching rule applies.
        pub cache_control: Vec<CacheRule> => list("cache-control", CacheRule::default);
        /// Header fields by path.
        pub headers: Vec<HeaderRule> => list("header", HeaderRule::default);
        /// Content types by path; the first matching rule applies.
        pub content_types: Vec<TypeRule> => list("content-type", TypeRule::default);
        @section "Redirects, rewrites, proxy and access";
        /// Redirects; the first matching rule applies.
        pub redirects: Vec<Redirect> => list("redirect", Redirect::default);
        /// Rewrites; the first matching rule applies.
        pub rewrites: Vec<Rewrite> => list("rewrite", Rewrite::default);
        /// Paths whose requests are forwarded to other servers; the first matching rule applies.
        pub proxies: Vec<Proxy>
            => short_list("proxy", Proxy::default,
                "forward requests for a path and all paths below it to another server, as in \
                 /api=http://127.0.0.1:3000; a URL alone applies to all paths; several URLs for one path share its \
                 requests");
        /// Addresses that may access some paths; all matching rules apply.
        pub access: Vec<Access> => list("access", Access::default);
        /// Paths that require a password; the first matching rule applies.
        pub auth: Vec<Auth> => list("auth", Auth::default);
        @section "Other files";
        /// Files to try for paths that match no file; the first matching rule applies.
        pub try_files: Vec<TryRule> => list("try-files", TryRule::default);
        /// Directories whose files appear below other paths; the alias with the longest path applies.
        pub aliases: Vec<Alias> => list("alias", Alias::default);
    }
}

impl HostConfig {
    /// The default host with root directory `root` and no rules.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), ..Self::default() }
    }

    /// The index of the alias that contains `path`, and the rest of the path, both paths without a leading slash.
    pub(crate) fn alias<'p>(&self, path: &'p [u8]) -> Option<(usize, &'p [u8])> {
        let within = |(number, alias): (usize, &Alias)| match path
            .strip_prefix(alias.path.trim_matches('/').as_bytes())?
        {
            [] => Some((number, &b""[..])),
            [b'/', rest @ ..] => Some((number, rest)),
            _ => None,
        };
        self.aliases.iter().enumerate().filter_map(within).min_by_key(|(_, rest)| rest.len())
    }
}

/// Which symbolic links below the root are followed. A link never leads outside the root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Symlinks {
    /// No links.
    Deny,
    /// Links whose owner also owns the target.
    #[default]
    OwnerMatches,
    /// All links.
    Follow,
}

impl From<Symlinks> for SymlinkPolicy {
    fn from(policy: Symlinks) -> Self {
        match policy {
            Symlinks::Deny => Self::Deny,
            Symlinks::OwnerMatches => Self::OwnerMatches,
            Symlinks::Follow => Self::Follow,
        }
    }
}

settings! {
    /// A certificate and its private key.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Tls {
        /// PEM file with the host's certificate followed by its intermediate certificates.
        pub certificate: PathBuf
            => required("certificate",
                "PEM file with the certificate and its intermediates; a renewed file is loaded at run time");
        /// PEM file with the private key of the certificate.
        pub key: PathBuf => required("key", "PEM file with the private key of the certificate");
    }
}

/// Response to a request for an unknown host if there is no default host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownHost {
    /// The response of the first host.
    #[default]
    First,
    /// 404 (Not Found).
    NotFound,
    /// 421 (Misdirected Request), which tells the client to retry on another connection (RFC 9110 §15.5.20).
    Misdirected,
}
