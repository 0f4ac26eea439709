//! Configuration of one virtual host.

use std::path::PathBuf;

use phalanx::fs::Links;

use crate::config::limits::AccessLog;
use crate::config::proxy::Proxy;
use crate::config::rules::{
    Access, Alias, Auth, CacheRule, Cors, HeaderRule, Redirect, Rewrite, SecurityHeaders, TryRule,
    TypeRule,
};

/// A virtual host: its names, files and rules.
#[derive(Clone, Debug, PartialEq)]
pub struct HostConfig {
    /// Names without ports: `example.org`, or `*.example.org` for all subdomains. A host without names is the
    /// default host.
    pub server_names: Vec<String>,
    /// Root directory of the files. Nothing outside it is ever served.
    pub root: PathBuf,
    /// Directories whose files appear below other paths; the alias with the longest path applies.
    pub aliases: Vec<Alias>,
    /// Index files of a directory, in order of preference.
    pub index: Vec<String>,
    /// Whether directories without an index file are listed.
    pub listing: bool,
    /// Whether the URLs of pages omit `.html`: `/about` serves `about.html`, and `/about.html` redirects to `/about`.
    pub clean_urls: bool,
    /// Files to try for paths that match no file; the first matching rule applies.
    pub try_files: Vec<TryRule>,
    /// File served with 200 for paths that do not exist, as single-page applications require.
    pub fallback: Option<String>,
    /// Error pages by status, for example 404 and `404.html`.
    pub error_pages: Vec<(u16, String)>,
    /// Which symbolic links are followed.
    pub symlinks: Symlinks,
    /// Content types by path; the first matching rule applies.
    pub content_types: Vec<TypeRule>,
    /// Charset declared for text; `None` declares none.
    pub charset: Option<String>,
    /// Whether to serve `file.br`, `file.zst` or `file.gz` instead of `file` to clients that accept the
    /// encoding.
    pub precompressed: bool,
    /// Whether to compress text and cache the result.
    pub compress: bool,
    /// Header fields by path.
    pub headers: Vec<HeaderRule>,
    /// `Cache-Control` by path; the first matching rule applies.
    pub cache_control: Vec<CacheRule>,
    /// Cross-origin resource sharing.
    pub cors: Option<Cors>,
    /// Security header fields.
    pub security_headers: Option<SecurityHeaders>,
    /// Redirects; the first matching rule applies.
    pub redirects: Vec<Redirect>,
    /// Rewrites; the first matching rule applies.
    pub rewrites: Vec<Rewrite>,
    /// Paths whose requests are forwarded to other servers; the first matching rule applies.
    pub proxies: Vec<Proxy>,
    /// Addresses that may access some paths; all matching rules apply.
    pub access: Vec<Access>,
    /// Paths that require a password; the first matching rule applies.
    pub auth: Vec<Auth>,
    /// Separate access log of the host; `None` uses the server's log.
    pub access_log: Option<AccessLog>,
    /// The host's certificate.
    pub tls: Option<Tls>,
    /// Whether to obtain a certificate over ACME, if it is configured and the host has names and no `tls`.
    pub acme: bool,
}

impl HostConfig {
    /// The default host with root directory `root` and no rules.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            server_names: Vec::new(),
            root: root.into(),
            aliases: Vec::new(),
            index: vec!["index.html".into()],
            listing: false,
            clean_urls: false,
            try_files: Vec::new(),
            fallback: None,
            error_pages: Vec::new(),
            symlinks: Symlinks::default(),
            content_types: Vec::new(),
            charset: Some("utf-8".into()),
            precompressed: false,
            compress: false,
            headers: Vec::new(),
            cache_control: Vec::new(),
            cors: None,
            security_headers: None,
            redirects: Vec::new(),
            rewrites: Vec::new(),
            proxies: Vec::new(),
            access: Vec::new(),
            auth: Vec::new(),
            access_log: None,
            tls: None,
            acme: true,
        }
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

impl From<Symlinks> for Links {
    fn from(policy: Symlinks) -> Self {
        match policy {
            Symlinks::Deny => Self::Refused,
            Symlinks::OwnerMatches => Self::SameOwner,
            Symlinks::Follow => Self::Followed,
        }
    }
}

/// A certificate and its private key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// PEM file with the host's certificate followed by its intermediate certificates.
    pub certificate: PathBuf,
    /// PEM file with the private key of the certificate.
    pub key: PathBuf,
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
