//! Header fields of responses.

use std::borrow::Cow;

use phalanx_http::FieldBlock;

use crate::config::SecurityHeaders;
use crate::site::rules::pattern::Pattern;
use crate::site::rules::value::is_value;

/// A header field for some paths.
pub(super) struct Header {
    pub(super) pattern: Pattern,
    pub(super) name: String,
    pub(super) value: String,
    /// Whether error responses have the field, too.
    pub(super) errors: bool,
}

/// Adds fields. A later one overrides earlier ones, but list fields are sent several times.
pub(super) fn add<'a>(
    fields: &mut Vec<(&'a str, Cow<'a, str>)>,
    headers: impl Iterator<Item = &'a Header>,
) {
    for Header { name, value, .. } in headers {
        if !name.eq_ignore_ascii_case("link") && !name.eq_ignore_ascii_case("vary") {
            fields.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        }
        fields.push((name, value.into()));
    }
}

/// `Cache-Control` for protected paths. A shared cache does not store responses to requests with credentials,
/// unless `public`, `s-maxage` or `must-revalidate` allows it (RFC 9111 §3.5); the first two are removed, and `private`
/// has priority over the last.
pub(crate) fn private(value: &str) -> String {
    // If the value contains quotes, only the names of restrictive directives are kept. Parsing quoted commas is not
    // worth it, and without their values these directives are even more restrictive.
    let has_quotes = value.contains('"');
    let kept = value.split(',').map(str::trim).filter(|directive| match has_quotes {
        true => is_one_of(directive, &["no-store", "no-cache"]),
        false => !is_one_of(directive, &["", "public", "s-maxage", "private"]),
    });
    let kept = kept.map(|directive| if has_quotes { directive_name(directive) } else { directive });
    ["private"].into_iter().chain(kept).collect::<Vec<_>>().join(", ")
}

fn directive_name(directive: &str) -> &str {
    directive.split('=').next().unwrap_or_default().trim()
}

fn is_one_of(directive: &str, names: &[&str]) -> bool {
    names.iter().any(|name| directive_name(directive).eq_ignore_ascii_case(name))
}

/// The `WWW-Authenticate` field of a realm (RFC 7617 §2.1).
pub(super) fn challenge(realm: &str) -> Result<FieldBlock, String> {
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
pub(super) fn is_hsts(value: &str) -> Result<(), String> {
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

/// The configured security fields.
pub(super) fn security(headers: &SecurityHeaders) -> Vec<(&'static str, String)> {
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
mod tests {
    use super::*;

    #[test]
    fn shared_caches_are_forbidden() {
        for (value, wanted) in [
            ("", "private"),
            ("public, max-age=60", "private, max-age=60"),
            ("s-maxage=9, No-Store, PRIVATE", "private, No-Store"),
            ("no-cache=\"Set-Cookie, X\", max-age=60", "private, no-cache"),
            ("x=\"a, public\", no-store, private=\"b\"", "private, no-store"),
        ] {
            assert_eq!(private(value), wanted, "{value}");
        }
    }
}
