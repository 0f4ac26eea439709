//! Rules of a host: which answers get which fields, and which paths are elsewhere.
//!
//! A `path` here is a glob over a request's path: `*` stands for anything within a segment, `**` for
//! anything at all, `?` for one character, `{a,b}` for either.

use std::path::PathBuf;
use std::time::Duration;

/// A field for the answers to some paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderRule {
    /// Which paths, as a glob.
    pub path: String,
    /// The field's name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// The type of some files, where the end of their names does not tell it, or tells another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeRule {
    /// Which files, as a glob.
    pub path: String,
    /// The value of `Content-Type`: `text/plain; charset=iso-8859-1`. Without a charset, text has that of
    /// its host.
    pub value: String,
}

/// `Cache-Control` for some files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheRule {
    /// Which files, as a glob.
    pub path: String,
    /// The value: `public, max-age=31536000, immutable`.
    pub value: String,
}

/// Cross-origin resource sharing: which pages of others may read answers of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cors {
    /// Their origins, as `https://app.example.org`; `*` is all.
    pub origins: Vec<String>,
    /// The methods they may use.
    pub methods: Vec<String>,
    /// The fields they may send; `*` is all.
    pub headers: Vec<String>,
    /// The fields of answers that they may read.
    pub expose: Vec<String>,
    /// Whether they may send cookies and credentials. Not together with the origin `*`.
    pub credentials: bool,
    /// How long a browser may remember the answer to its question.
    pub max_age: Duration,
}

impl Default for Cors {
    fn default() -> Self {
        Self {
            origins: Vec::new(),
            methods: vec!["GET".into(), "HEAD".into()],
            headers: Vec::new(),
            expose: Vec::new(),
            credentials: false,
            max_age: Duration::from_secs(3600),
        }
    }
}

/// Fields that tell browsers to be careful with answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecurityHeaders {
    /// `X-Content-Type-Options: nosniff`: types are taken as they are said.
    pub nosniff: bool,
    /// `X-Frame-Options`: who may show pages within a page.
    pub frame_options: Option<String>,
    /// `Referrer-Policy`: what other sites learn of where a visitor comes from.
    pub referrer_policy: Option<String>,
    /// `Content-Security-Policy`: none unless set, since only its author knows what a page needs.
    pub content_security_policy: Option<String>,
    /// `Permissions-Policy`.
    pub permissions_policy: Option<String>,
    /// `Strict-Transport-Security`: that the host is to be asked by TLS only. Sent over TLS only.
    pub strict_transport_security: Option<String>,
}

impl Default for SecurityHeaders {
    fn default() -> Self {
        Self {
            nosniff: true,
            frame_options: Some("SAMEORIGIN".into()),
            referrer_policy: Some("strict-origin-when-cross-origin".into()),
            content_security_policy: None,
            permissions_policy: None,
            strict_transport_security: None,
        }
    }
}

/// Paths that are elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// A path, a prefix that ends in `/**`, or another glob.
    pub from: String,
    /// Where: a path or a URL. What `/**` stood for in `from` is put in the place of `$rest`.
    pub to: String,
    /// With which status.
    pub status: RedirectStatus,
}

/// The statuses of a redirect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RedirectStatus {
    /// 301, for good.
    MovedPermanently,
    /// 302, for now.
    Found,
    /// 307, for now, and the method stays.
    Temporary,
    /// 308, for good, and the method stays.
    #[default]
    Permanent,
}

/// Paths that are answered as others would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewrite {
    /// As in [`Redirect::from`].
    pub from: String,
    /// The path whose answer it is; `$rest` as in [`Redirect::to`].
    pub to: String,
}

/// Paths for those who have a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth {
    /// Which paths, as a glob.
    pub path: String,
    /// What the browser says it is for.
    pub realm: String,
    /// The users and their passwords' hashes, as `htpasswd` writes them.
    pub users: PathBuf,
}
