//! A host's compiled rules: routing and header fields by path.

mod access;
mod aliases;
pub(super) mod cors;
mod headers;
pub(super) mod kind;
mod pattern;
mod target;
mod try_files;
mod value;

use std::borrow::Cow;
use std::net::IpAddr;

use phalanx_http::{FieldBlock, Status, path};

use crate::config::HostConfig;
use crate::site::rules::access::AccessRules;
use crate::site::rules::cors::CrossOrigin;
pub(crate) use crate::site::rules::headers::private;
use crate::site::rules::headers::{Header, add, challenge, is_hsts, security};
use crate::site::rules::kind::Kinds;
use crate::site::rules::pattern::{Pattern, absolute};
use crate::site::rules::target::{Target, redirect, rewrite};
use crate::site::rules::try_files::TryFiles;
use crate::site::rules::value::{RuleErrors, is_field, is_value};

/// A host's rules.
pub(crate) struct Rules {
    redirects: Vec<(Pattern, Target, Status)>,
    rewrites: Vec<(Pattern, Target)>,
    headers: Vec<Header>,
    cache_control: Vec<(Pattern, String)>,
    access: AccessRules,
    /// Paths that require a password, with the challenge of each.
    auth: Vec<(Pattern, FieldBlock)>,
    /// Fields of every response. Entries of files contain them.
    security_headers: Vec<(&'static str, String)>,
    /// The same fields, prepared.
    pub(crate) security: FieldBlock,
    /// Fields of every response over TLS.
    pub(crate) tls: FieldBlock,
    pub(crate) kinds: Kinds,
    pub(crate) cors: Option<CrossOrigin>,
    pub(crate) try_files: TryFiles,
}

/// Result of routing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// The path itself.
    Here,
    /// The path was replaced by another path of this host.
    Rewritten,
    /// A redirect to another URL.
    Redirect(Status, Vec<u8>),
    /// Access denied; the response is already written.
    Answered,
}

/// A response without a file.
#[derive(Clone, Copy)]
pub(crate) enum Page {
    Error,
    /// The response to a preflight request.
    Preflight,
    Other,
}

impl Page {
    /// Whether the response gets a field of a rule without `errors = true`.
    fn has(self, name: &str) -> bool {
        match self {
            Self::Error => false,
            Self::Preflight => name.to_ascii_lowercase().starts_with("access-control-"),
            // Rules about caching apply to files only.
            Self::Other => !name.eq_ignore_ascii_case("cache-control"),
        }
    }
}

impl Rules {
    pub(crate) fn new(host: &HostConfig) -> Result<Self, RuleErrors> {
        let mut errors = RuleErrors::new();
        let kinds = Kinds::new(host, &mut errors);
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
        let mut add_error = |key: String, message: String| errors.push((key, message));
        for (n, rule) in host.redirects.iter().enumerate() {
            match redirect(rule) {
                Ok(rule) => rules.redirects.push(rule),
                Err((key, message)) => add_error(format!("redirect[{n}].{key}"), message),
            }
        }
        for (n, rule) in host.rewrites.iter().enumerate() {
            match rewrite(rule) {
                Ok(rule) => rules.rewrites.push(rule),
                Err((key, message)) => add_error(format!("rewrite[{n}].{key}"), message),
            }
        }
        let own_hsts = host.security_headers.as_ref();
        let own_hsts = own_hsts.and_then(|headers| headers.strict_transport_security.as_ref());
        for (n, rule) in host.headers.iter().enumerate() {
            match (Pattern::new(&rule.path), is_field(&rule.name, &rule.value)) {
                (Ok(_), Ok(()))
                    if rule.errors && rule.name.eq_ignore_ascii_case("cache-control") =>
                {
                    let message =
                        "the server sets `Cache-Control` of errors itself; remove `errors = true`";
                    add_error(format!("header[{n}].errors"), message.into());
                }
                (Ok(_), Ok(()))
                    if own_hsts.is_some()
                        && rule.name.eq_ignore_ascii_case("strict-transport-security") =>
                {
                    let message = "`security-headers` sets `Strict-Transport-Security` for all paths; remove this rule";
                    add_error(format!("header[{n}].name"), message.into());
                }
                (Ok(pattern), Ok(())) => {
                    let (name, value) = (rule.name.clone(), rule.value.clone());
                    rules.headers.push(Header { pattern, name, value, errors: rule.errors });
                }
                (Err(message), _) => add_error(format!("header[{n}].path"), message),
                (_, Err((key, message))) => add_error(format!("header[{n}].{key}"), message),
            }
        }
        for (n, rule) in host.cache_control.iter().enumerate() {
            let value = match rule.preset {
                Some(_) if !rule.value.is_empty() => {
                    add_error(
                        format!("cache-control[{n}].preset"),
                        "`value` is set as well; remove one of them".into(),
                    );
                    continue;
                }
                Some(preset) => preset.value(),
                None => &rule.value,
            };
            match (Pattern::new(&rule.path), is_value(value)) {
                (Ok(pattern), Ok(())) => rules.cache_control.push((pattern, value.to_owned())),
                (Err(message), _) => add_error(format!("cache-control[{n}].path"), message),
                (_, Err(message)) => add_error(format!("cache-control[{n}].value"), message),
            }
        }
        for (name, value) in &rules.security_headers {
            if let Err(message) = is_value(value) {
                add_error(format!("security-headers.{}", name.to_ascii_lowercase()), message);
            }
            rules.security.push(name, value.as_bytes());
        }
        if let Some(value) = own_hsts {
            match is_hsts(value) {
                Ok(()) => rules.tls.push("Strict-Transport-Security", value.as_bytes()),
                Err(message) => {
                    add_error("security-headers.strict-transport-security".into(), message)
                }
            }
        }
        for (n, rule) in host.auth.iter().enumerate() {
            match (Pattern::new(&rule.path), challenge(&rule.realm)) {
                (Ok(pattern), Ok(challenge)) => rules.auth.push((pattern, challenge)),
                (Err(message), _) => add_error(format!("auth[{n}].path"), message),
                (_, Err(message)) => add_error(format!("auth[{n}].realm"), message),
            }
            if rule.users.as_os_str().is_empty() {
                add_error(format!("auth[{n}].users"), "expected the path of a file".into());
            }
        }
        aliases::check(host, &mut add_error);
        rules.access = AccessRules::new(host, &mut add_error);
        rules.try_files = TryFiles::new(host, &mut add_error);
        match host.cors.as_ref().map(CrossOrigin::new).transpose() {
            Ok(cors) => rules.cors = cors,
            Err((key, message)) => add_error(format!("cors.{key}"), message),
        }
        if errors.is_empty() { Ok(rules) } else { Err(errors) }
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
        self.apply_rules(path, directory, query)
    }

    #[cold]
    fn apply_rules(&self, path: &mut Vec<u8>, directory: &mut bool, query: Option<&str>) -> Route {
        let requested = absolute(path, *directory);
        if let Some((status, location)) = self.redirect_from(&requested, query) {
            return Route::Redirect(status, location);
        }
        for (pattern, target) in &self.rewrites {
            if let Some(rest) = pattern.matches(&requested) {
                let mut to = target.prefix.as_bytes().to_vec();
                if let Some(suffix) = &target.suffix {
                    to.extend_from_slice(rest);
                    to.extend_from_slice(suffix.as_bytes());
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

    /// The status and the target of a redirect for a resolved path; `None` if no rule redirects it.
    pub(crate) fn redirect(
        &self,
        path: &[u8],
        directory: bool,
        query: Option<&str>,
    ) -> Option<(Status, Vec<u8>)> {
        if self.redirects.is_empty() {
            return None;
        }
        self.redirect_from(&absolute(path, directory), query)
    }

    /// Like [`redirect`](Self::redirect), for a path with its slashes.
    fn redirect_from(&self, requested: &[u8], query: Option<&str>) -> Option<(Status, Vec<u8>)> {
        let mut rules = self.redirects.iter();
        let (rest, target, status) = rules.find_map(|(pattern, target, status)| {
            Some((pattern.matches(requested)?, target, *status))
        })?;
        let mut location = target.prefix.as_bytes().to_vec();
        if let Some(suffix) = &target.suffix {
            path::encode(rest, &mut location);
            location.extend_from_slice(suffix.as_bytes());
        }
        if let Some(query) = query
            && !location.contains(&b'?')
        {
            path::encode_query(query, &mut location);
        }
        Some((status, location))
    }

    /// Whether any path requires a password or an address.
    #[inline]
    pub(crate) fn has_protected(&self) -> bool {
        !self.auth.is_empty() || !self.access.is_empty()
    }

    /// Whether a password or an address is required for a resolved path.
    pub(crate) fn protects(&self, path: &[u8], directory: bool) -> bool {
        self.has_protected() && self.is_protected(&absolute(path, directory))
    }

    /// Like [`protects`](Self::protects), for a path as clients send it.
    #[inline]
    pub(crate) fn protects_request(&self, path: &str) -> bool {
        self.has_protected() && self.is_request_protected(path)
    }

    fn is_request_protected(&self, path: &str) -> bool {
        let mut resolved = Vec::new();
        match path::resolve(path.as_bytes(), &mut resolved) {
            Ok(target) => self.protects(&resolved, target.directory),
            Err(_) => self.may_protect(path),
        }
    }

    /// Whether a password or an address may be required for a path that this server cannot resolve, but an upstream
    /// server might.
    pub(crate) fn may_protect(&self, path: &str) -> bool {
        let mut loose = Vec::new();
        match path::resolve_loosely(path.as_bytes(), &mut loose) {
            Ok(target) => {
                let path = absolute(&loose, target.directory);
                self.auth.iter().any(|(pattern, _)| pattern.may_match(&path))
                    || self.access.may_apply_to(&path)
            }
            Err(_) => true,
        }
    }

    /// Whether a password or an address is required for a path, which begins with a slash.
    fn is_protected(&self, path: &[u8]) -> bool {
        let mut auth = self.auth.iter();
        auth.any(|(pattern, _)| pattern.matches(path).is_some()) || self.access.applies_to(path)
    }

    /// Whether a client may access a resolved path by the rules about addresses.
    pub(crate) fn admits(&self, path: &[u8], directory: bool, client: Option<IpAddr>) -> bool {
        self.access.is_empty() || self.access.admits(&absolute(path, directory), client)
    }

    /// Index of the rule that requires a password for a resolved path.
    pub(crate) fn auth(&self, path: &[u8], directory: bool) -> Option<usize> {
        let requested = absolute(path, directory);
        self.auth.iter().position(|(pattern, _)| pattern.matches(&requested).is_some())
    }

    /// The `WWW-Authenticate` field of a rule.
    pub(crate) fn challenge(&self, rule: usize) -> &FieldBlock {
        &self.auth[rule].1
    }

    /// Additional header fields of a file, or of a listing (`is_listing`), for which caches must not guess a lifetime.
    pub(crate) fn fields(&self, path: &[u8], is_listing: bool) -> Vec<(&str, Cow<'_, str>)> {
        let mut fields: Vec<(&str, Cow<'_, str>)> = Vec::new();
        let nothing = self.headers.is_empty() && self.cache_control.is_empty();
        if nothing && self.security_headers.is_empty() && !self.has_protected() && !is_listing {
            return fields;
        }
        let path = absolute(path, is_listing);
        let mut cache = self.cache_control.iter();
        if let Some((_, value)) = cache.find(|(pattern, _)| pattern.matches(&path).is_some()) {
            fields.push(("Cache-Control", value.into()));
        } else if is_listing {
            fields.push(("Cache-Control", "no-cache".into()));
        }
        fields.extend(self.security_headers.iter().map(|(name, value)| (*name, value.into())));
        add(
            &mut fields,
            self.headers.iter().filter(|header| header.pattern.matches(&path).is_some()),
        );
        if self.is_protected(&path) {
            let is_cache = |(name, _): &(&str, _)| name.eq_ignore_ascii_case("Cache-Control");
            let own = fields.iter().position(is_cache).map(|at| fields.remove(at).1);
            fields.push(("Cache-Control", private(own.as_deref().unwrap_or_default()).into()));
        }
        fields
    }

    /// Fields of a response without a file to a request for `path`, a path as clients send it, with the security fields.
    /// `None` if only these apply.
    pub(crate) fn page_fields(&self, path: &str, page: Page) -> Option<FieldBlock> {
        let applies = |header: &&Header| header.errors || page.has(&header.name);
        let mut headers = self.headers.iter().filter(applies).peekable();
        headers.peek()?;
        // A path that cannot be resolved gets only the fields of rules for all paths.
        let mut resolved = Vec::new();
        let path = match path::resolve(path.as_bytes(), &mut resolved) {
            Ok(target) => absolute(&resolved, target.directory),
            Err(_) => b"/".to_vec(),
        };
        let security = self.security_headers.iter();
        let mut fields: Vec<_> = security.map(|(name, value)| (*name, value.into())).collect();
        add(&mut fields, headers.filter(|header| header.pattern.matches(&path).is_some()));
        let mut block = FieldBlock::default();
        fields.iter().for_each(|(name, value)| block.push(name, value.as_bytes()));
        Some(block)
    }
}

#[cfg(test)]
mod tests;
