//! Rules of a host: header fields, content types, redirects, rewrites and access control by path.
//!
//! A `path` is a glob matched against the request path: `*` matches within a segment, `**` matches anything,
//! `?` matches one character, and `{a,b}` matches either alternative.

use std::path::PathBuf;
use std::time::Duration;

use phalanx_config::settings;
use phalanx_guard::Network;

use crate::config::values::Networks;

settings! {
    /// A header field for responses to some paths.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct HeaderRule {
        /// Glob of the paths.
        pub path: String => required("path", "glob: files that the rule applies to");
        /// Name of the field.
        pub name: String => required("name", "name of a response header");
        /// Value of the field.
        pub value: String => required("value", "its value");
        /// Whether error responses to requests for these paths also contain the field.
        pub errors: bool
            => key("errors", "also send it with error responses to requests for these paths");
    }
}

settings! {
    /// Content type of files whose extension is missing or misleading.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct TypeRule {
        /// Glob of the paths.
        pub path: String
            => required("path", "glob: files whose extension does not determine their type");
        /// Value of `Content-Type`: `text/plain; charset=iso-8859-1`. Text without a charset gets the host's
        /// charset.
        pub value: String
            => required("value", "their `Content-Type`; host.charset is added to text types without a charset");
    }
}

settings! {
    /// Files to try for paths that match no file.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct TryRule {
        /// Glob of the paths.
        pub path: String = "/**".into()
            => key("path", "glob: paths that the rule applies to if they match no file");
        /// Files in order of preference, such as `/index.html` or `$path.html`. `$path` stands for the requested path.
        pub files: Vec<String>
            => required("files",
                "files to send instead; the first existing one is used, and $path stands for the requested path: \
                 $path.html, /index.html");
    }
}

settings! {
    /// `Cache-Control` of some files.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CacheRule {
        /// Glob of the paths.
        pub path: String => required("path", "glob: files that the rule applies to");
        /// Value of the field: `public, max-age=31536000, immutable`. Empty if there is a preset.
        pub value: String => key("value", "value of `Cache-Control`, if `preset` is not set");
        /// A common value.
        pub preset: Option<CachePreset>
            => key("preset",
                "a common value: immutable (kept for a year, for files whose names change with their contents), \
                 revalidate (kept, but checked before each use), day, or never (not stored)");
    }
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

settings! {
    /// A directory outside of the root whose files appear below a path.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Alias {
        /// The path, such as `/images`.
        pub path: String
            => required("path", "path below which the files appear, such as /images; the longest path applies");
        /// The directory.
        pub root: PathBuf => required("root", "directory of the files");
    }
}

settings! {
    /// Cross-origin resource sharing: which other origins may read responses of this host.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Cors {
        /// Allowed origins, for example `https://app.example.org`; `*` allows all.
        pub origins: Vec<String>
            => required("origins", "origins that may read responses, such as https://app.example, or * for all");
        /// Allowed methods.
        pub methods: Vec<String> = vec!["GET".into(), "HEAD".into()]
            => key("methods", "methods these origins may use");
        /// Allowed request fields; `*` allows all.
        pub headers: Vec<String> => key("headers", "request headers they may send");
        /// Response fields that scripts may read.
        pub expose: Vec<String> => key("expose", "response headers they may read");
        /// Whether requests may carry cookies and credentials. Excludes the origin `*`.
        pub credentials: bool => key("credentials", "allow credentials such as cookies");
        /// Time for which browsers may cache a preflight response.
        pub max_age: Duration = Duration::from_secs(3600)
            => key("max-age", "time for which browsers may cache this policy");
    }
}

settings! {
    /// Security header fields.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SecurityHeaders {
        /// `X-Content-Type-Options: nosniff`: browsers must not guess content types.
        pub nosniff: bool = true => key("nosniff", "`X-Content-Type-Options: nosniff`");
        /// `X-Frame-Options`: which pages may embed this one.
        pub frame_options: Option<String> = Some("SAMEORIGIN".into())
            => key("frame-options", "`X-Frame-Options`");
        /// `Referrer-Policy`: how much of a page's URL browsers send to other sites.
        pub referrer_policy: Option<String> = Some("strict-origin-when-cross-origin".into())
            => key("referrer-policy", "`Referrer-Policy`");
        /// `Content-Security-Policy`: unset by default, because it depends on the pages.
        pub content_security_policy: Option<String>
            => key("content-security-policy", "`Content-Security-Policy`");
        /// `Permissions-Policy`.
        pub permissions_policy: Option<String> => key("permissions-policy", "`Permissions-Policy`");
        /// `Strict-Transport-Security`: browsers must use TLS for this host. Sent over TLS only.
        pub strict_transport_security: Option<String>
            => key("strict-transport-security",
                "`Strict-Transport-Security`, on all responses over TLS to requests for the host: max-age=31536000");
    }
}

settings! {
    /// A redirect of some paths.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Redirect {
        /// A path, a prefix that ends in `/**`, or another glob.
        pub from: String => required("from", "path or glob to redirect");
        /// Target path or URL. `$rest` stands for the part that `/**` matched in `from`.
        pub to: String => required("to", "path or URL of the target");
        /// Status of the redirect.
        pub status: RedirectStatus => key("status", "permanent (301, 308) or temporary (302, 307)");
    }
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

settings! {
    /// An internal rewrite of some paths.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Rewrite {
        /// As in [`Redirect::from`].
        pub from: String => required("from", "path or glob to rewrite");
        /// The path served instead; `$rest` as in [`Redirect::to`].
        pub to: String => required("to", "path that is served instead");
    }
}

settings! {
    /// Addresses that may access some paths.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Access {
        /// Glob of the paths.
        pub path: String = "/**".into()
            => key("path", "glob: paths that the rule applies to; all matching rules must admit a client");
        /// Networks whose requests are answered; all if it is empty.
        pub allow: Vec<Network>
            => key_as::<Networks>("allow", "networks whose requests are answered, such as 10.0.0.0/8; if empty, all");
        /// Networks whose requests get 403, even if `allow` contains them.
        pub deny: Vec<Network>
            => key_as::<Networks>("deny", "networks whose requests get 403, even if `allow` contains them");
    }
}

settings! {
    /// Password protection of some paths.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Auth {
        /// Glob of the paths.
        pub path: String = "/**".into() => key("path", "glob: paths that require a password");
        /// Realm, which browsers display.
        pub realm: String = "restricted".into() => key("realm", "realm that browsers show");
        /// Password file in `htpasswd` format.
        pub users: PathBuf => required("users", "password file as written by htpasswd -B");
    }
}
