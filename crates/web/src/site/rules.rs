//! A host's compiled rules: routing and header fields by path.

use std::borrow::Cow;
use std::net::IpAddr;

use phalanx_http::{FieldBlock, Status, path};

use crate::config::{HostConfig, Redirect, RedirectStatus, Rewrite, SecurityHeaders};
use crate::site::access::AccessRules;
use crate::site::aliases;
use crate::site::cors::CrossOrigin;
use crate::site::kind::Kinds;
use crate::site::pattern::Pattern;
use crate::site::try_files::TryFiles;
use crate::site::value::{Refused, Wrong, is_field, is_value};

/// Placeholder in a target for the part that `/**` matched.
const REST_PLACEHOLDER: &str = "$rest";

/// A host's rules.
pub(crate) struct Rules {
    redirects: Vec<(Pattern, Target, Status)>,
    rewrites: Vec<(Pattern, Target)>,
    headers: Vec<Header>,
    cache_control: Vec<(Pattern, String)>,
    access: AccessRules,
    /// Paths that require a password, with the challenge of each.
    auth: Vec<(Pattern, FieldBlock)>,
    /// Fields of every response, which those of a file contain.
    security_headers: Vec<(&'static str, String)>,
    /// The same fields, prepared.
    pub(crate) security: FieldBlock,
    /// Fields of every response over TLS.
    pub(crate) tls: FieldBlock,
    pub(crate) kinds: Kinds,
    pub(crate) cors: Option<CrossOrigin>,
    pub(crate) try_files: TryFiles,
}

/// A header field for some paths.
struct Header {
    pattern: Pattern,
    name: String,
    value: String,
    /// Whether error responses have it, too.
    errors: bool,
}

/// Adds fields. A later one overrides earlier ones, but list fields are sent several times.
fn add<'a>(fields: &mut Vec<(&'a str, Cow<'a, str>)>, headers: impl Iterator<Item = &'a Header>) {
    for Header { name, value, .. } in headers {
        if !name.eq_ignore_ascii_case("link") && !name.eq_ignore_ascii_case("vary") {
            fields.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        }
        fields.push((name, value.into()));
    }
}

/// Result of routing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// The path itself.
    Here,
    /// Another path of this host, which has replaced the path.
    Rewritten,
    /// A redirect to another URL.
    Redirect(Status, Vec<u8>),
    /// Access denied; the response is already written.
    Answered,
}

/// The text before and after `$rest`, if present.
struct Target {
    before: String,
    behind: Option<String>,
}

impl Target {
    fn new(text: &str, pattern: &Pattern) -> Result<Self, String> {
        let Some((before, behind)) = text.split_once(REST_PLACEHOLDER) else {
            return Ok(Self { before: text.to_owned(), behind: None });
        };
        if !pattern.has_rest() {
            return Err(format!(
                "{REST_PLACEHOLDER} has no value because `from` does not end in /**"
            ));
        }
        Ok(Self { before: before.to_owned(), behind: Some(behind.to_owned()) })
    }
}

impl Rules {
    pub(crate) fn new(host: &HostConfig) -> Result<Self, Wrong> {
        let mut wrong = Wrong::new();
        let kinds = Kinds::new(host, &mut wrong);
        let mut rules = Self {
            kinds,
            tls: FieldBlock::default(),
            redirects: Vec::new(),
            rewrites: Vec::new(),
            headers: Vec::new(),
            cache_control: Vec::new(),
            access: AccessRules::default(),
            auth: Vec::new(),
            security_headers: host.security_headers.as_ref().map(security).unwrap_or_default(),
            security: FieldBlock::default(),
            cors: None,
            try_files: TryFiles::default(),
        };
        let mut note = |key: String, what: String| wrong.push((key, what));
        for (n, rule) in host.redirects.iter().enumerate() {
            match redirect(rule) {
                Ok(rule) => rules.redirects.push(rule),
                Err((key, what)) => note(format!("redirect[{n}].{key}"), what),
            }
        }
        for (n, rule) in host.rewrites.iter().enumerate() {
            match rewrite(rule) {
                Ok(rule) => rules.rewrites.push(rule),
                Err((key, what)) => note(format!("rewrite[{n}].{key}"), what),
            }
        }
        for (n, rule) in host.headers.iter().enumerate() {
            match (Pattern::new(&rule.path), is_field(&rule.name, &rule.value)) {
                (Ok(_), Ok(()))
                    if rule.errors && rule.name.eq_ignore_ascii_case("cache-control") =>
                {
                    let what = "errors have a `Cache-Control` of their own; remove `errors = true`";
                    note(format!("header[{n}].errors"), what.into());
                }
                (Ok(pattern), Ok(())) => {
                    let (name, value) = (rule.name.clone(), rule.value.clone());
                    rules.headers.push(Header { pattern, name, value, errors: rule.errors });
                }
                (Err(what), _) => note(format!("header[{n}].path"), what),
                (_, Err((key, what))) => note(format!("header[{n}].{key}"), what),
            }
        }
        for (n, rule) in host.cache_control.iter().enumerate() {
            let value = match rule.preset {
                Some(_) if !rule.value.is_empty() => {
                    note(format!("cache-control[{n}].preset"), "there is a value, too".into());
                    continue;
                }
                Some(preset) => preset.value(),
                None => &rule.value,
            };
            match (Pattern::new(&rule.path), is_value(value)) {
                (Ok(pattern), Ok(())) => rules.cache_control.push((pattern, value.to_owned())),
                (Err(what), _) => note(format!("cache-control[{n}].path"), what),
                (_, Err(what)) => note(format!("cache-control[{n}].value"), what),
            }
        }
        for (name, value) in &rules.security_headers {
            if let Err(what) = is_value(value) {
                note(format!("security-headers.{}", name.to_ascii_lowercase()), what);
            }
            rules.security.push(name, value.as_bytes());
        }
        let transport = host.security_headers.as_ref();
        if let Some(value) = transport.and_then(|own| own.strict_transport_security.as_ref()) {
            match is_hsts(value) {
                Ok(()) => rules.tls.push("Strict-Transport-Security", value.as_bytes()),
                Err(what) => note("security-headers.strict-transport-security".into(), what),
            }
        }
        for (n, rule) in host.auth.iter().enumerate() {
            match (Pattern::new(&rule.path), challenge(&rule.realm)) {
                (Ok(pattern), Ok(challenge)) => rules.auth.push((pattern, challenge)),
                (Err(what), _) => note(format!("auth[{n}].path"), what),
                (_, Err(what)) => note(format!("auth[{n}].realm"), what),
            }
            if rule.users.as_os_str().is_empty() {
                note(format!("auth[{n}].users"), "expected the path of a file".into());
            }
        }
        aliases::check(host, &mut note);
        rules.access = AccessRules::new(host, &mut note);
        rules.try_files = TryFiles::new(host, &mut note);
        match host.cors.as_ref().map(CrossOrigin::new).transpose() {
            Ok(cors) => rules.cors = cors,
            Err((key, what)) => note(format!("cors.{key}"), what),
        }
        if wrong.is_empty() { Ok(rules) } else { Err(wrong) }
    }

    /// Routes the request for `path`, resolved from a path with a trailing slash if `directory`. A rewrite
    /// replaces both.
    #[inline]
    pub(crate) fn route(
        &self,
        path: &mut Vec<u8>,
        directory: &mut bool,
        query: Option<&str>,
    ) -> Route {
        if self.redirects.is_empty() && self.rewrites.is_empty() && !self.try_files.clean_urls {
            return Route::Here;
        }
        self.routed(path, directory, query)
    }

    #[cold]
    fn routed(&self, path: &mut Vec<u8>, directory: &mut bool, query: Option<&str>) -> Route {
        let asked = absolute(path, *directory);
        for (pattern, target, status) in &self.redirects {
            if let Some(rest) = pattern.matches(&asked) {
                let mut location = target.before.as_bytes().to_vec();
                if let Some(behind) = &target.behind {
                    path::encode(rest, &mut location);
                    location.extend_from_slice(behind.as_bytes());
                }
                if let Some(query) = query
                    && !location.contains(&b'?')
                {
                    path::encode_query(query, &mut location);
                }
                return Route::Redirect(*status, location);
            }
        }
        for (pattern, target) in &self.rewrites {
            if let Some(rest) = pattern.matches(&asked) {
                let mut to = target.before.as_bytes().to_vec();
                if let Some(behind) = &target.behind {
                    to.extend_from_slice(rest);
                    to.extend_from_slice(behind.as_bytes());
                }
                *directory = to.ends_with(b"/");
                path.clear();
                let names = to.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
                for name in names {
                    if !path.is_empty() {
                        path.push(b'/');
                    }
                    path.extend_from_slice(name);
                }
                return Route::Rewritten;
            }
        }
        match self.try_files.clean(path, *directory, query) {
            Some(location) => Route::Redirect(Status::MovedPermanently, location),
            None => Route::Here,
        }
    }

    /// Whether any path requires a password or an address.
    #[inline]
    pub(crate) fn has_protected(&self) -> bool {
        !self.auth.is_empty() || !self.access.is_empty()
    }

    /// Whether a client may access a resolved path by the rules about addresses.
    pub(crate) fn admits(&self, path: &[u8], directory: bool, client: Option<IpAddr>) -> bool {
        self.access.is_empty() || self.access.admits(&absolute(path, directory), client)
    }

    /// Index of the rule that requires a password for a resolved path.
    pub(crate) fn auth(&self, path: &[u8], directory: bool) -> Option<usize> {
        let asked = absolute(path, directory);
        self.auth.iter().position(|(pattern, _)| pattern.matches(&asked).is_some())
    }

    /// The `WWW-Authenticate` field of a rule.
    pub(crate) fn challenge(&self, rule: usize) -> &FieldBlock {
        &self.auth[rule].1
    }

    /// Additional header fields of a file's responses; or of a listing (`made`), whose
    /// age caches must not guess.
    pub(crate) fn fields(&self, path: &[u8], made: bool) -> Vec<(&str, Cow<'_, str>)> {
        let mut fields: Vec<(&str, Cow<'_, str>)> = Vec::new();
        let nothing = self.headers.is_empty() && self.cache_control.is_empty();
        if nothing && self.security_headers.is_empty() && !self.has_protected() && !made {
            return fields;
        }
        let path = absolute(path, made);
        let mut cache = self.cache_control.iter();
        if let Some((_, value)) = cache.find(|(pattern, _)| pattern.matches(&path).is_some()) {
            fields.push(("Cache-Control", value.into()));
        } else if made {
            fields.push(("Cache-Control", "no-cache".into()));
        }
        fields.extend(self.security_headers.iter().map(|(name, value)| (*name, value.into())));
        add(&mut fields, self.headers.iter().filter(|own| own.pattern.matches(&path).is_some()));
        let has_password = self.auth.iter().any(|(pattern, _)| pattern.matches(&path).is_some());
        if has_password || self.access.concerns(&path) {
            let is_cache = |(name, _): &(&str, _)| name.eq_ignore_ascii_case("Cache-Control");
            let own = fields.iter().position(is_cache).map(|at| fields.remove(at).1);
            fields.push(("Cache-Control", private(own.as_deref().unwrap_or_default()).into()));
        }
        fields
    }

    /// Fields of a response without a file, an error or not, to a request for `path`, a path as clients send it, with the
    /// security fields. `None` if only these apply.
    pub(crate) fn page_fields(&self, path: &str, is_error: bool) -> Option<FieldBlock> {
        // Caching by path is for files.
        let is_file_only = |own: &Header| own.name.eq_ignore_ascii_case("cache-control");
        let applies = |own: &&Header| own.errors || !is_error && !is_file_only(own);
        let mut headers = self.headers.iter().filter(applies).peekable();
        headers.peek()?;
        // A path that cannot be resolved has only the fields of all paths.
        let mut resolved = Vec::new();
        let path = match path::resolve(path.as_bytes(), &mut resolved) {
            Ok(target) => absolute(&resolved, target.directory),
            Err(_) => b"/".to_vec(),
        };
        let security = self.security_headers.iter();
        let mut fields: Vec<_> = security.map(|(name, value)| (*name, value.into())).collect();
        add(&mut fields, headers.filter(|own| own.pattern.matches(&path).is_some()));
        let mut block = FieldBlock::default();
        fields.iter().for_each(|(name, value)| block.push(name, value.as_bytes()));
        Some(block)
    }
}

/// A resolved path with its slashes, as a client would request it.
pub(super) fn absolute(path: &[u8], directory: bool) -> Vec<u8> {
    let mut absolute = Vec::with_capacity(path.len() + 2);
    absolute.push(b'/');
    absolute.extend_from_slice(path);
    if directory && !path.is_empty() {
        absolute.push(b'/');
    }
    absolute
}

/// `Cache-Control` for protected paths. A shared cache does not store responses to requests with credentials,
/// unless `public`, `s-maxage` or `must-revalidate` allows it (RFC 9111 §3.5); these are removed.
fn private(value: &str) -> String {
    let named = |directive: &str, name: &str| {
        directive.split('=').next().is_some_and(|own| own.trim().eq_ignore_ascii_case(name))
    };
    // A value with quotes is dropped as a whole: parsing quoted commas is not worth it.
    let directives = value.split(',').map(str::trim).filter(|_| !value.contains('"'));
    let kept = directives.filter(|directive| {
        let shared = ["", "public", "s-maxage", "private"];
        !shared.iter().any(|name| named(directive, name))
    });
    ["private"].into_iter().chain(kept).collect::<Vec<_>>().join(", ")
}

/// The `WWW-Authenticate` field of a realm (RFC 7617 §2.1).
fn challenge(realm: &str) -> Result<FieldBlock, String> {
    is_value(realm)?;
    if realm.contains(['"', '\\']) || !realm.is_ascii() {
        return Err(format!("found {realm:?}, expected ASCII text without quotes and backslashes"));
    }
    let mut field = FieldBlock::default();
    let value = format!("Basic realm=\"{realm}\", charset=\"UTF-8\"");
    field.push("WWW-Authenticate", value.as_bytes());
    Ok(field)
}

/// Checks a value of `Strict-Transport-Security` (RFC 6797 §6.1).
fn is_hsts(value: &str) -> Result<(), String> {
    is_value(value)?;
    let mut directives = value.split(';').map(str::trim);
    let seconds = directives.find_map(|directive| {
        let (name, seconds) = directive.split_once('=')?;
        name.trim().eq_ignore_ascii_case("max-age").then(|| seconds.trim().trim_matches('"'))
    });
    match seconds.is_some_and(|seconds| seconds.parse::<u64>().is_ok()) {
        true => Ok(()),
        false => Err(format!("found {value:?}, expected a value such as \"max-age=31536000\"")),
    }
}

fn redirect(rule: &Redirect) -> Result<(Pattern, Target, Status), Refused> {
    let pattern = Pattern::new(&rule.from).map_err(|what| ("from", what))?;
    let target = Target::new(&rule.to, &pattern).map_err(|what| ("to", what))?;
    let to = &rule.to;
    let refuse = |what: &str| Err(("to", format!("found {to:?}, {what}")));
    let authority = match to.split_once("://") {
        Some(("http" | "https", rest)) => rest,
        None if to.starts_with('/') && !to.starts_with("//") && !to.starts_with("/\\") => to,
        _ => return refuse("expected a path, or a URL with http:// or https://"),
    };
    if authority.starts_with(REST_PLACEHOLDER)
        || authority.split(['/', '?']).next().unwrap_or("").contains('$')
    {
        return refuse("with which clients could choose the host; put a slash before $rest");
    }
    if !to.bytes().all(|byte| byte.is_ascii_graphic()) {
        return refuse("expected a percent-encoded URL");
    }
    let status = match rule.status {
        RedirectStatus::MovedPermanently => Status::MovedPermanently,
        RedirectStatus::Found => Status::Found,
        RedirectStatus::Temporary => Status::TemporaryRedirect,
        RedirectStatus::Permanent => Status::PermanentRedirect,
    };
    Ok((pattern, target, status))
}

fn rewrite(rule: &Rewrite) -> Result<(Pattern, Target), Refused> {
    let pattern = Pattern::new(&rule.from).map_err(|what| ("from", what))?;
    let target = Target::new(&rule.to, &pattern).map_err(|what| ("to", what))?;
    // A client must not reach a hidden file by appending its name to a dot in the target.
    let plain = rule.to.replacen(REST_PLACEHOLDER, "rest", 1);
    let splits = target.behind.is_some() && !target.before.ends_with('/');
    let encoded = plain.contains(['%', '?', '#']);
    match path::resolve(plain.as_bytes(), &mut Vec::new()) {
        Ok(_) if !splits && !encoded => Ok((pattern, target)),
        Ok(_) if splits => {
            Err(("to", format!("found {:?}, expected a slash before $rest", rule.to)))
        }
        Ok(_) => Err((
            "to",
            format!(
                "found {:?}, expected a path without percent-encoding, query and fragment",
                rule.to
            ),
        )),
        Err(error) => Err(("to", format!("found {:?}, expected a path: {error}", rule.to))),
    }
}

fn security(headers: &SecurityHeaders) -> Vec<(&'static str, String)> {
    let mut fields = Vec::new();
    if headers.nosniff {
        fields.push(("X-Content-Type-Options", "nosniff".to_owned()));
    }
    for (name, value) in [
        ("X-Frame-Options", &headers.frame_options),
        ("Referrer-Policy", &headers.referrer_policy),
        ("Content-Security-Policy", &headers.content_security_policy),
        ("Permissions-Policy", &headers.permissions_policy),
    ] {
        fields.extend(value.as_ref().map(|value| (name, value.clone())));
    }
    fields
}

#[cfg(test)]
mod tests;
