//! Rules of a host: header fields, content types, redirects, rewrites and access control by path.
//!
//! A `path` is a glob matched against the request path: `*` matches within a segment, `**` matches anything,
//! `?` matches one character, and `{a,b}` matches either alternative.

use std::path::PathBuf;
use std::time::Duration;

use phalanx_guard::Network;

/// A header field for responses to some paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderRule {
    /// Glob of the paths.
    pub path: String,
    /// Name of the field.
    pub name: String,
    /// Value of the field.
    pub value: String,
    /// Whether error responses to requests for these paths also contain the field.
    pub errors: bool,
}

/// Content type of files whose extension is missing or misleading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeRule {
    /// Glob of the paths.
    pub path: String,
    /// Value of `Content-Type`: `text/plain; charset=iso-8859-1`. Text without a charset gets the host's
    /// charset.
    pub value: String,
}

/// Files to try for paths that match no file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TryRule {
    /// Glob of the paths.
    pub path: String,
    /// Files in order of preference, such as `/index.html` or `$path.html`. `$path` stands for the requested path.
    pub files: Vec<String>,
}

/// `Cache-Control` of some files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheRule {
    /// Glob of the paths.
    pub path: String,
    /// Value of the field: `public, max-age=31536000, immutable`. Empty if there is a preset.
    pub value: String,
    /// A common value.
    pub preset: Option<CachePreset>,
}

/// A common value of `Cache-Control`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachePreset {
    /// The name of the file changes with its contents, so caches keep it for a year.
    Immutable,
    /// Caches keep the file, but check before each use whether it has changed.
    Revalidate,
    /// Caches use the file for a day without checking it.
    Day,
    /// Caches do not store the file.
    Never,
}

impl CachePreset {
    /// The value of the field.
    pub(crate) fn value(self) -> &'static str {
        match self {
            Self::Immutable => "public, max-age=31536000, immutable",
            Self::Revalidate => "no-cache",
            Self::Day => "public, max-age=86400",
            Self::Never => "no-store",
        }
    }
}

/// A directory outside of the root whose files appear below a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alias {
    /// The path, such as `/images`.
    pub path: String,
    /// The directory.
    pub root: PathBuf,
}

/// Cross-origin resource sharing: which other origins may read responses of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cors {
    /// Allowed origins, for example `https://app.example.org`; `*` allows all.
    pub origins: Vec<String>,
    /// Allowed methods.
    pub methods: Vec<String>,
    /// Allowed request fields; `*` allows all.
    pub headers: Vec<String>,
    /// Response fields that scripts may read.
    pub expose: Vec<String>,
    /// Whether requests may carry cookies and credentials. Excludes the origin `*`.
    pub credentials: bool,
    /// Time for which browsers may cache a preflight response.
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

/// Security header fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecurityHeaders {
    /// `X-Content-Type-Options: nosniff`: browsers must not guess content types.
    pub nosniff: bool,
    /// `X-Frame-Options`: which pages may embed this one.
    pub frame_options: Option<String>,
    /// `Referrer-Policy`: how much of a page's URL browsers send to other sites.
    pub referrer_policy: Option<String>,
    /// `Content-Security-Policy`: unset by default, because it depends on the pages.
    pub content_security_policy: Option<String>,
    /// `Permissions-Policy`.
    pub permissions_policy: Option<String>,
    /// `Strict-Transport-Security`: browsers must use TLS for this host. Sent over TLS only.
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

/// A redirect of some paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// A path, a prefix that ends in `/**`, or another glob.
    pub from: String,
    /// Target path or URL. `$rest` stands for the part that `/**` matched in `from`.
    pub to: String,
    /// Status of the redirect.
    pub status: RedirectStatus,
}

/// Status of a redirect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RedirectStatus {
    /// 301, permanent.
    MovedPermanently,
    /// 302, temporary.
    Found,
    /// 307, temporary; the client keeps the method.
    Temporary,
    /// 308, permanent; the client keeps the method.
    #[default]
    Permanent,
}

/// An internal rewrite of some paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewrite {
    /// As in [`Redirect::from`].
    pub from: String,
    /// The path served instead; `$rest` as in [`Redirect::to`].
    pub to: String,
}

/// Addresses that may access some paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Glob of the paths.
    pub path: String,
    /// Networks whose requests are answered; all if it is empty.
    pub allow: Vec<Network>,
    /// Networks whose requests get 403, even if `allow` contains them.
    pub deny: Vec<Network>,
}

/// Password protection of some paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth {
    /// Glob of the paths.
    pub path: String,
    /// Realm, which browsers display.
    pub realm: String,
    /// Password file in `htpasswd` format.
    pub users: PathBuf,
}
