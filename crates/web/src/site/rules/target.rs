//! Targets of redirects and rewrites.

use phalanx_http::{Status, path};

use crate::config::{Redirect, RedirectStatus, Rewrite};
use crate::site::rules::pattern::Pattern;
use crate::site::rules::value::RuleError;

/// Placeholder in a target for the part that `/**` matched.
const REST_PLACEHOLDER: &str = "$rest";

/// The text before and after `$rest`, if present.
pub(super) struct Target {
    pub(super) prefix: String,
    pub(super) suffix: Option<String>,
}

impl Target {
    fn new(text: &str, pattern: &Pattern) -> Result<Self, String> {
        let Some((prefix, suffix)) = text.split_once(REST_PLACEHOLDER) else {
            return Ok(Self { prefix: text.to_owned(), suffix: None });
        };
        if !pattern.has_rest() {
            return Err(format!(
                "{REST_PLACEHOLDER} has no value because `from` does not end in /**"
            ));
        }
        Ok(Self { prefix: prefix.to_owned(), suffix: Some(suffix.to_owned()) })
    }
}

/// Compiles a redirect.
pub(super) fn redirect(rule: &Redirect) -> Result<(Pattern, Target, Status), RuleError> {
    let pattern = Pattern::new(&rule.from).map_err(|message| ("from", message))?;
    let target = Target::new(&rule.to, &pattern).map_err(|message| ("to", message))?;
    let to = &rule.to;
    let refuse = |message: &str| Err(("to", format!("found {to:?}, {message}")));
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

/// Compiles a rewrite.
pub(super) fn rewrite(rule: &Rewrite) -> Result<(Pattern, Target), RuleError> {
    let pattern = Pattern::new(&rule.from).map_err(|message| ("from", message))?;
    let target = Target::new(&rule.to, &pattern).map_err(|message| ("to", message))?;
    // Otherwise a client could reach a hidden file, if `$rest` follows a dot in the target.
    let plain = rule.to.replacen(REST_PLACEHOLDER, "rest", 1);
    let splits = target.suffix.is_some() && !target.prefix.ends_with('/');
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
