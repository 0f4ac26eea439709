//! Content types of a host's files.

use std::fmt;
use std::sync::Arc;

use phalanx_http::{ContentType, content_type, is_compressible, is_text};

use crate::config::HostConfig;
use crate::site::rules::pattern::Pattern;
use crate::site::rules::value::{RuleErrors, is_value};

/// A content type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// By file extension, with the known charset.
    Known(ContentType),
    /// By a rule.
    Configured { value: Arc<str>, is_compressible: bool },
}

impl Kind {
    /// Whether compression pays for this type.
    pub(crate) fn is_compressible(&self) -> bool {
        match self {
            Self::Known(known) => known.is_compressible(),
            Self::Configured { is_compressible, .. } => *is_compressible,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(known) => known.fmt(f),
            Self::Configured { value, .. } => f.write_str(value),
        }
    }
}

impl From<ContentType> for Kind {
    fn from(known: ContentType) -> Self {
        Self::Known(known)
    }
}

/// A host's rules for content types.
pub(crate) struct Kinds {
    rules: Vec<(Pattern, Kind)>,
    /// Charset of text; the outer `None` means the known one.
    charset: Option<Option<String>>,
}

impl Kinds {
    /// Compiles a host's rules. Adds errors to `errors`.
    pub(crate) fn new(host: &HostConfig, errors: &mut RuleErrors) -> Self {
        let charset = host.charset.as_deref();
        if let Some(charset) = charset.filter(|charset| !is_token(charset)) {
            let message =
                format!("found {charset:?}, expected the name of a charset such as \"utf-8\"");
            errors.push(("charset".into(), message));
        }
        let mut rules = Vec::new();
        for (n, rule) in host.content_types.iter().enumerate() {
            let kind = parse_configured(&rule.value, charset);
            match (Pattern::new(&rule.path), kind) {
                (Ok(pattern), Ok(kind)) => rules.push((pattern, kind)),
                (Err(message), _) => errors.push((format!("content-type[{n}].path"), message)),
                (_, Err(message)) => errors.push((format!("content-type[{n}].value"), message)),
            }
        }
        let is_default = charset.is_some_and(|charset| charset.eq_ignore_ascii_case("utf-8"));
        Self { rules, charset: (!is_default).then(|| host.charset.clone()) }
    }

    /// The content type of the file at `path`, which has no leading slash.
    pub(crate) fn of(&self, path: &[u8]) -> Kind {
        if !self.rules.is_empty() {
            let requested = [b"/", path].concat();
            let mut rules = self.rules.iter();
            if let Some((_, kind)) =
                rules.find(|(pattern, _)| pattern.matches(&requested).is_some())
            {
                return kind.clone();
            }
        }
        let known = content_type(path);
        match &self.charset {
            Some(charset) if known.utf8 => {
                let value = with_charset(known.essence, charset.as_deref()).into();
                Kind::Configured { value, is_compressible: true }
            }
            _ => known.into(),
        }
    }
}

/// The value of a rule, with a charset added to text.
fn parse_configured(value: &str, charset: Option<&str>) -> Result<Kind, String> {
    is_value(value)?;
    let (essence, parameters) = value.split_once(';').unwrap_or((value, ""));
    let essence = essence.trim();
    let is_type =
        essence.split_once('/').is_some_and(|(kind, sub)| is_token(kind) && is_token(sub));
    if !is_type || !value.is_ascii() {
        return Err(format!("found {value:?}, expected a type such as \"text/plain\""));
    }
    let lower = essence.to_ascii_lowercase();
    let needs_charset = is_text(&lower) && !parameters.to_ascii_lowercase().contains("charset=");
    let value = if needs_charset { with_charset(value, charset) } else { value.to_owned() };
    Ok(Kind::Configured { value: value.into(), is_compressible: is_compressible(&lower) })
}

fn with_charset(value: &str, charset: Option<&str>) -> String {
    match charset {
        Some(charset) => format!("{value}; charset={charset}"),
        None => value.to_owned(),
    }
}

/// RFC 9110 §5.6.2.
fn is_token(text: &str) -> bool {
    let is_one = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !text.is_empty() && text.chars().all(is_one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TypeRule;

    fn kinds(charset: Option<&str>, rules: &[(&str, &str)]) -> (Kinds, RuleErrors) {
        let rule = |&(path, value): &(&str, &str)| TypeRule {
            path: path.to_owned(),
            value: value.to_owned(),
        };
        let mut host = HostConfig::new(".");
        host.charset = charset.map(str::to_owned);
        host.content_types = rules.iter().map(rule).collect();
        let mut errors = RuleErrors::new();
        (Kinds::new(&host, &mut errors), errors)
    }

    #[test]
    fn types_of_files() {
        let rules = [
            ("/old/**", "text/html; charset=iso-8859-1"),
            ("*.{log,md}", "text/plain"),
            ("LICENSE", "text/plain"),
            ("*.wasm2", "application/wasm"),
            ("*.raw", "image/png"),
        ];
        let (usual, errors) = kinds(Some("utf-8"), &rules);
        assert!(errors.is_empty());
        let (none, _) = kinds(None, &rules);
        let (other, _) = kinds(Some("koi8-r"), &rules);
        // (path, with utf-8, without a charset, with another)
        let table = [
            ("a.html", "text/html; charset=utf-8", "text/html", "text/html; charset=koi8-r"),
            ("a.png", "image/png", "image/png", "image/png"),
            ("x/LICENSE", "text/plain; charset=utf-8", "text/plain", "text/plain; charset=koi8-r"),
            ("a.log", "text/plain; charset=utf-8", "text/plain", "text/plain; charset=koi8-r"),
            ("a.wasm2", "application/wasm", "application/wasm", "application/wasm"),
        ];
        for (path, utf8, bare, koi8) in table {
            let of = |kinds: &Kinds| kinds.of(path.as_bytes()).to_string();
            assert_eq!(
                (of(&usual), of(&none), of(&other)),
                (utf8.into(), bare.into(), koi8.into())
            );
        }
        let own = none.of(b"old/a.log");
        assert_eq!(own.to_string(), "text/html; charset=iso-8859-1", "the first that matches");
        assert!(own.is_compressible() && !none.of(b"a.raw").is_compressible());
        assert!(none.of(b"a.wasm2").is_compressible(), "as by its extension");
        assert!(none.of(b"a.html").is_compressible());
    }

    #[test]
    fn invalid_types_are_reported() {
        for (path, value) in [("[", "text/plain"), ("/a", "text"), ("/a", "te xt/a"), ("/a", "")] {
            assert_eq!(kinds(None, &[(path, value)]).1.len(), 1, "{path} {value}");
        }
        assert_eq!(kinds(Some("u tf"), &[]).1[0].0, "charset");
    }
}
