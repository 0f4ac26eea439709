//! One host: its names, its files, and the rules by which they are served.

use std::path::PathBuf;

use crate::config::rules::{
    Auth, CacheRule, Cors, HeaderRule, Redirect, Rewrite, SecurityHeaders, TypeRule,
};

/// How the requests for some names are answered.
#[derive(Clone, Debug, PartialEq)]
pub struct HostConfig {
    /// Its names, without ports: `example.org`, or `*.example.org` for all that end so. A host
    /// without names is the default one.
    pub server_names: Vec<String>,
    /// The directory of its files. Nothing outside of it is ever served.
    pub root: PathBuf,
    /// What stands for a directory: the first of these that is there.
    pub index: Vec<String>,
    /// Whether a directory without an index is listed.
    pub listing: bool,
    /// The file that answers for paths that lead to nothing, with 200; as a program that runs in
    /// the browser wants it.
    pub fallback: Option<String>,
    /// Files that are shown with a status: 404 and `404.html`.
    pub error_pages: Vec<(u16, String)>,
    /// Which symbolic links are followed.
    pub symlinks: Symlinks,
    /// Types of files, by path: the first rule that matches.
    pub content_types: Vec<TypeRule>,
    /// The charset that text is said to be in; none to say nothing of it.
    pub charset: Option<String>,
    /// Whether `file.br`, `file.zst` or `file.gz` is sent in the place of `file` to who takes it.
    pub precompressed: bool,
    /// Whether text is compressed in the cache.
    pub compress: bool,
    /// Fields for answers, by path.
    pub headers: Vec<HeaderRule>,
    /// `Cache-Control` for files, by path: the first rule that matches.
    pub cache_control: Vec<CacheRule>,
    /// Who else may read answers from a page of theirs.
    pub cors: Option<Cors>,
    /// Fields that tell browsers to be careful.
    pub security_headers: Option<SecurityHeaders>,
    /// Paths that are elsewhere: the first that matches.
    pub redirects: Vec<Redirect>,
    /// Paths that are answered with others: the first that matches.
    pub rewrites: Vec<Rewrite>,
    /// Paths that ask for a name and a password: the first that matches.
    pub auth: Vec<Auth>,
    /// The certificate for its names.
    pub tls: Option<Tls>,
}

impl HostConfig {
    /// The default host, with files from `root` and no rules.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            server_names: Vec::new(),
            root: root.into(),
            index: vec!["index.html".into()],
            listing: false,
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
            auth: Vec::new(),
            tls: None,
        }
    }
}

/// Which symbolic links beneath a root are followed. None leads out of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Symlinks {
    /// None.
    #[default]
    Deny,
    /// Those whose owner is the owner of what they lead to.
    OwnerMatches,
    /// All.
    Follow,
}

/// A certificate and its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// PEM file: the host's certificate, then those that lead to the root.
    pub certificate: PathBuf,
    /// PEM file: the certificate's private key.
    pub key: PathBuf,
}

/// What is answered to a request for a host that is not known, where there is no default host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownHost {
    /// What the first host does.
    #[default]
    First,
    /// 404 (Not Found).
    NotFound,
    /// 421 (Misdirected Request), by which a client learns to ask elsewhere (RFC 9110 §15.5.20).
    Misdirected,
}
