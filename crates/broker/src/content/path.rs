//! The syntax of a subscription in one text, usable from any client library:
//! `$share/GROUP/$where/CONDITION/TOPIC FILTER?QUERY`. Only the topic filter is required.
//!
//! Many client libraries validate topic filters, and reject `+` or `#` next to other characters of a level.
//! Therefore the condition of `$where/` is a level of its own, in which these characters and `/` are escaped.

use std::borrow::Cow;

use phalanx_mqtt::topic::{self, Shared};

/// The first level of a subscription with a condition on user properties, or also on the payload's fields.
pub(super) const WHERE: &str = "$where/";
pub(super) const WHERE_JSON: &str = "$where-json/";

/// Prefixes of EMQX that are rejected, because otherwise they would be accepted as ordinary topic filters.
const FOREIGN_PREFIXES: [(&str, &str); 2] = [
    ("$queue/", "write $share/GROUP/FILTER for a shared subscription"),
    ("$exclusive/", "there are no exclusive subscriptions"),
];

/// Separates the topic filter and the filter of a user property in a key. Topic filters cannot contain it.
pub(super) const KEY_SEPARATOR: char = '\0';

/// Follows the separator in the key of a literal subscription whose text looks like a content filter.
pub(super) const LITERAL: &str = "$literal";

/// The escaped condition of `$where/`, and whether it is `$where-json/`.
type Condition<'a> = (&'a str, bool);

/// The parts of a subscription's text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Parts<'a> {
    pub(super) path: Shared<'a>,
    pub(super) condition: Option<Condition<'a>>,
    /// The text after `?`.
    pub(super) query: Option<&'a str>,
}

impl<'a> Parts<'a> {
    /// # Errors
    /// A description of the error.
    pub(super) fn parse(text: &'a str) -> Result<Self, String> {
        let Some(Shared { group, filter }) = topic::shared(text) else {
            return Err("a shared subscription has the form $share/GROUP/FILTER".into());
        };
        let (condition, filter) = take_condition(filter)?;
        let (filter, query) = match filter.split_once('?') {
            Some((filter, query)) => (filter, Some(query)),
            None => (filter, None),
        };
        if filter.is_empty() {
            return Err("the topic filter is missing".into());
        }
        if let Some((prefix, hint)) =
            FOREIGN_PREFIXES.iter().find(|(prefix, _)| filter.starts_with(prefix))
        {
            return Err(format!("{prefix} is a prefix of other brokers; {hint}"));
        }
        if condition.is_some() && filter.starts_with("$share/") {
            return Err("$share/GROUP/ must precede $where/CONDITION/".into());
        }
        if condition.is_some() && filter.starts_with("$where") {
            return Err("two conditions: join them with AND".into());
        }
        Ok(Self { path: Shared { group, filter }, condition, query })
    }

    /// Whether the text is a topic filter and nothing else.
    fn is_literal(&self) -> bool {
        self.condition.is_none() && self.query.is_none()
    }
}

/// Splits the condition off the front of `filter`; also returns the rest.
fn take_condition(filter: &str) -> Result<(Option<Condition<'_>>, &str), String> {
    for (prefix, json) in [(WHERE, false), (WHERE_JSON, true)] {
        if let Some(rest) = filter.strip_prefix(prefix) {
            let (condition, filter) = rest.split_once('/').ok_or_else(|| {
                format!("the topic filter is missing in {prefix}CONDITION/FILTER")
            })?;
            return Ok((Some((condition, json)), filter));
        }
    }
    let first = filter.split('/').next().unwrap_or_default();
    if first.starts_with('$') && is_misspelled(first) {
        return Err(format!(
            "unknown prefix `{first}`; write {WHERE} or {WHERE_JSON} before a condition"
        ));
    }
    Ok((None, filter))
}

/// Whether `name` is probably a misspelled name of a filter: equal except for case and non-letters.
pub(super) fn is_misspelled(name: &str) -> bool {
    let letters: String = name.chars().filter(|c| c.is_alphabetic()).collect();
    ["where", "wherejson", "filter", "filters", "payload", "json"]
        .contains(&letters.to_lowercase().as_str())
}

/// Unescapes a condition: `%2B` is `+`, and so on.
///
/// # Errors
/// A description of the error.
pub(super) fn unescape(condition: &str) -> Result<String, String> {
    let mut pieces = condition.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let (code, rest) = piece
            .split_at_checked(2)
            .filter(|(code, _)| code.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .ok_or("in $where/ a % starts an escape: %2B is +, %23 is #, %2F is / and %25 is %")?;
        bytes.push(u8::from_str_radix(code, 16).unwrap_or_default());
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).map_err(|_| "the escapes in $where/ are not UTF-8".into())
}

/// Escapes a condition for [`unescape`].
pub(super) fn escape(condition: &str) -> String {
    let mut text = String::with_capacity(condition.len());
    for c in condition.chars() {
        match c {
            '%' => text.push_str("%25"),
            '+' => text.push_str("%2B"),
            '#' => text.push_str("%23"),
            '/' => text.push_str("%2F"),
            c => text.push(c),
        }
    }
    text
}

/// The group and the topic filter of a key.
pub(crate) fn path(key: &str) -> Option<Shared<'_>> {
    match key.split_once(KEY_SEPARATOR) {
        Some((text, LITERAL)) => topic::shared(text),
        Some((text, _)) => Parts::parse(text).ok().map(|parts| parts.path),
        None => Parts::parse(key).ok().map(|parts| parts.path),
    }
}

/// Whether a subscription with this key has a content filter.
pub(crate) fn has_content(key: &str) -> bool {
    match key.split_once(KEY_SEPARATOR) {
        Some((_, mark)) => mark != LITERAL,
        None => Parts::parse(key).is_ok_and(|parts| !parts.is_literal()),
    }
}

/// The key of a literal subscription to topic filter `text`, which may look like a content filter.
pub(crate) fn literal_key(text: &str) -> Cow<'_, str> {
    match Parts::parse(text) {
        Ok(parts) if parts.is_literal() => text.into(),
        _ => format!("{text}{KEY_SEPARATOR}{LITERAL}").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts() {
        for (text, group, condition, filter, query) in [
            ("a/+/#", None, None, "a/+/#", None),
            ("a/+?k=v/w", None, None, "a/+", Some("k=v/w")),
            ("$where/k > 5/#", None, Some(("k > 5", false)), "#", None),
            ("$where-json/a?b//x", None, Some(("a?b", true)), "/x", None),
            ("$share/g/$where/k/a?n=2", Some("g"), Some(("k", false)), "a", Some("n=2")),
            ("$share/g/t?k=v", Some("g"), None, "t", Some("k=v")),
            ("$SYS/#", None, None, "$SYS/#", None),
        ] {
            let path = Shared { group, filter };
            assert_eq!(Parts::parse(text), Ok(Parts { path, condition, query }), "{text}");
        }
        for (wrong, said) in [
            ("$share/g", "$share/GROUP/FILTER"),
            ("$where/k = 1", "topic filter is missing"),
            ("$where/k = 1/", "topic filter is missing"),
            ("?k=1", "topic filter is missing"),
            ("$where", "write $where/"),
            ("$WHERE/k = 1/t", "write $where/"),
            ("$filter/k = 1/t", "write $where/"),
            ("$where_json/k = 1/t", "write $where/"),
            ("$where/k = 1/$share/g/t", "must precede"),
            ("$where/k = 1/$where/l = 2/t", "join them with AND"),
            ("$queue/t", "$share/GROUP/FILTER"),
            ("$share/g/$exclusive/t", "no exclusive subscriptions"),
        ] {
            let error = Parts::parse(wrong).expect_err(wrong);
            assert!(error.contains(said), "{wrong}: {error}");
        }
    }

    #[test]
    fn escapes() {
        let escaped = "a LIKE 'x%25' AND b > %2b5 AND c = '%23%2F' AND d = '%C3%A9'";
        let condition = "a LIKE 'x%' AND b > +5 AND c = '#/' AND d = 'é'";
        assert_eq!(unescape(escaped).unwrap(), condition);
        assert_eq!(unescape(&super::escape(condition)).unwrap(), condition);
        assert!(!super::escape(condition).contains(['+', '#', '/']));
        for wrong in ["%", "5%", "a LIKE 'x%'", "%2", "%zz", "%+1", "%é"] {
            assert!(unescape(wrong).unwrap_err().contains("%2B is +"), "{wrong}");
        }
        assert!(unescape("%ff").is_err());
    }

    #[test]
    fn literal_keys() {
        for text in ["t", "a/+/#", "$share/g/t"] {
            assert_eq!(literal_key(text), text);
        }
        for text in ["t?k=v", "?", "$where/t", "$where", "$queue/t", "$filter/t", "$share/g/t?"] {
            let key = literal_key(text);
            assert_ne!(key, text);
            assert_eq!(path(&key), topic::shared(text));
            assert!(!has_content(&key), "{text}");
        }
        assert_eq!(path(&literal_key("$share/g")), None);
    }

    #[test]
    fn of_keys() {
        for (key, filter, content) in [
            ("t", "t", false),
            ("t?k=v", "t", true),
            ("$where/k = 'v'/t", "t", true),
            ("t\0\0k = 'v'", "t", true),
            ("$share/g/t\0\0k = 'v'", "t", true),
            ("t?k=v\0$literal", "t?k=v", false),
            ("$share/g/$where/t\0$literal", "$where/t", false),
        ] {
            assert_eq!((path(key).unwrap().filter, has_content(key)), (filter, content), "{key:?}");
        }
    }
}
