//! Parses subscriptions with content filters. A content filter may precede or follow the topic filter, or be a user
//! property of SUBSCRIBE.

use std::cell::OnceCell;

use phalanx_matcher::{Filter, FilterError};
use phalanx_mqtt::Properties;

use crate::content::path::{
    self, KEY_SEPARATOR, LITERAL, Parts, escape, is_misspelled, literal_key, path, unescape,
};

/// A filter on the content of messages.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Content {
    pub(crate) filter: Filter,
    /// Whether the filter also tests the fields of a JSON payload.
    pub(crate) json: bool,
}

impl Content {
    fn of(
        text: &str,
        parse: impl FnOnce(&str) -> Result<Filter, FilterError>,
        json: bool,
    ) -> Result<Self, String> {
        if text.contains('\0') {
            return Err("invalid filter: U+0000 is not allowed".into());
        }
        let filter = parse(text).map_err(|error| format!("invalid filter at {error}"))?;
        Ok(Self { filter, json })
    }
}

/// A parsed subscription.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ParsedSubscription {
    /// Identifies the subscription for replacement and for UNSUBSCRIBE.
    pub(crate) key: Box<str>,
    pub(crate) content: Option<Content>,
}

/// The names of user properties that hold a filter, and the name of the one that makes filters test the payload.
const WHERE: [&str; 2] = ["$where", "filter"];
const PAYLOAD: &str = "$payload";
/// The prefix of a query that tests the payload's fields.
const JSON: &str = "$json";

/// The filter in the properties of a SUBSCRIBE or UNSUBSCRIBE, which applies to all its topic filters.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct PacketFilter<'a> {
    text: Option<&'a str>,
    json: bool,
    /// Whether topic filters are taken literally, without content filters.
    is_literal: bool,
}

impl<'a> PacketFilter<'a> {
    /// No content filter, even if a topic filter looks like one.
    pub(crate) const LITERAL: Self = Self { text: None, json: false, is_literal: true };

    /// A filter of the configuration.
    pub(crate) fn configured(text: Option<&'a str>, json: bool) -> Self {
        Self { text, json, is_literal: false }
    }

    /// The user properties of a packet with this filter.
    pub(crate) fn properties(self) -> impl Iterator<Item = (&'static str, &'a str)> {
        let text = self.text.map(|text| (WHERE[0], text));
        let json = self.json.then_some((PAYLOAD, "json"));
        text.into_iter().chain(json).chain(self.is_literal.then_some((LITERAL, "true")))
    }

    /// # Errors
    /// A description of the error.
    pub(crate) fn from_properties(properties: Properties<'a>) -> Result<Self, String> {
        let mut own = Self::default();
        for (name, value) in properties.user() {
            if WHERE.contains(&name) {
                if own.text.replace(value).is_some() {
                    return Err("two filters: join them with AND".into());
                }
            } else if name == PAYLOAD {
                if value != "json" {
                    return Err(format!("{PAYLOAD} must be `json` or absent; found `{value}`"));
                }
                own.json = true;
            } else if name == LITERAL {
                if value != "true" {
                    return Err(format!("{LITERAL} must be `true` or absent; found `{value}`"));
                }
                own.is_literal = true;
            } else if name.starts_with('$') || is_misspelled(name) {
                return Err(format!(
                    "unknown user property `{name}`; filters go into `$where`, and `$payload` is `json`"
                ));
            }
        }
        if own.is_literal && (own.json || own.text.is_some()) {
            return Err(format!("{LITERAL} excludes a filter; leave one of them out"));
        }
        Ok(own)
    }
}

/// The key of a subscription. The filter's syntax is not checked, because the subscription already exists.
pub(crate) fn key(filter: &str, own: PacketFilter<'_>) -> Box<str> {
    match own {
        PacketFilter { is_literal: true, .. } => literal_key(filter).into(),
        PacketFilter { text: Some(text), json, .. } => {
            let json = if json { JSON } else { "" };
            format!("{filter}{KEY_SEPARATOR}{json}{KEY_SEPARATOR}{text}").into()
        }
        PacketFilter { text: None, json: true, .. } => {
            format!("{filter}{KEY_SEPARATOR}{JSON}").into()
        }
        PacketFilter { text: None, json: false, .. } => filter.into(),
    }
}

/// The key that the same text has in the other mode: literal if `own` is not, and the reverse. `None` if both keys are
/// equal, or if the packet has a filter.
pub(crate) fn other_key(filter: &str, own: PacketFilter<'_>) -> Option<Box<str>> {
    let literal = literal_key(filter);
    let is_plain = own.text.is_none() && !own.json && literal != filter;
    is_plain.then(|| if own.is_literal { filter.into() } else { literal.into() })
}

/// Parses a subscription.
///
/// # Errors
/// A description of the error, with its column in the filter.
pub(crate) fn parse(filter: &str, own: PacketFilter<'_>) -> Result<ParsedSubscription, String> {
    PacketParser::new(own).parse(filter)
}

/// Parses the subscriptions of a packet. The filter in its properties is parsed only once: it may take a millisecond, and
/// apply to thousands of subscriptions.
pub(crate) struct PacketParser<'a> {
    own: PacketFilter<'a>,
    content: OnceCell<Result<Content, String>>,
}

impl<'a> PacketParser<'a> {
    pub(crate) fn new(own: PacketFilter<'a>) -> Self {
        Self { own, content: OnceCell::new() }
    }

    /// Parses a subscription of the packet.
    ///
    /// # Errors
    /// Same as [`parse()`].
    pub(crate) fn parse(&self, filter: &str) -> Result<ParsedSubscription, String> {
        parse_with(filter, self.own, |text, json| {
            self.content.get_or_init(|| Content::of(text, Filter::parse, json)).clone()
        })
    }
}

/// Parses a subscription; `parse_own` parses the filter in the properties.
fn parse_with(
    filter: &str,
    own: PacketFilter<'_>,
    parse_own: impl FnOnce(&str, bool) -> Result<Content, String>,
) -> Result<ParsedSubscription, String> {
    if own.is_literal {
        let key = key(filter, own);
        return match path(&key) {
            Some(_) => Ok(ParsedSubscription { key, content: None }),
            None => Err("a shared subscription has the form $share/GROUP/FILTER".into()),
        };
    }
    let Parts { condition, query, .. } = Parts::parse(filter)?;
    let content = match (condition, query, own.text) {
        (None, None, None) if own.json => {
            return Err(format!("{PAYLOAD} requires a filter, which goes into `$where`"));
        }
        (None, None, None) => None,
        (Some((condition, json)), None, None) => {
            Some(Content::of(&unescape(condition)?, Filter::parse, own.json || json)?)
        }
        (None, Some(query), None) => {
            let behind = query.strip_prefix(JSON).and_then(|rest| rest.strip_prefix('&'));
            let text = behind.unwrap_or(query);
            Some(Content::of(text, Filter::parse_query, own.json || behind.is_some())?)
        }
        (None, None, Some(text)) => Some(parse_own(text, own.json)?),
        _ => return Err("two filters: use only one of $where/, ? and a user property".into()),
    };
    Ok(ParsedSubscription { key: key(filter, own), content })
}

/// The parts of a key: the topic filter as written, and the filter in the user properties of its SUBSCRIBE.
pub(crate) fn key_parts(key: &str) -> (&str, PacketFilter<'_>) {
    let mut parts = key.splitn(3, KEY_SEPARATOR);
    let filter = parts.next().unwrap_or_default();
    let mark = parts.next();
    let (json, is_literal) = (mark == Some(JSON), mark == Some(LITERAL));
    (filter, PacketFilter { text: parts.next(), json, is_literal })
}

/// The key of the same subscription with the condition in its text instead of a user property. `None` if it has no such
/// property, or if its packet could become larger.
pub(crate) fn in_text(key: &str) -> Option<String> {
    /// The size of a key that fits every packet, and the overhead of a user property in bytes.
    const SHORT: usize = 96;
    const PROPERTY_BYTES: usize = 9;
    let (filter, PacketFilter { text, json, .. }) = key_parts(key);
    let prefix = if json { path::WHERE_JSON } else { path::WHERE };
    let own = format!("{prefix}{}/{filter}", escape(text?));
    (own.len() <= SHORT.max(key.len() + PROPERTY_BYTES)).then_some(own)
}

/// Parses the key of an existing subscription.
///
/// # Errors
/// Same as [`parse`].
pub(crate) fn parse_key(key: &str) -> Result<ParsedSubscription, String> {
    let (filter, own) = key_parts(key);
    parse(filter, own)
}

#[cfg(test)]
mod tests {
    use phalanx_mqtt::{Property, PropertyBuffer};

    use super::*;
    use crate::content::path::path;

    fn properties(user: &[(&str, &str)]) -> PropertyBuffer {
        let mut buffer = PropertyBuffer::new();
        user.iter().for_each(|(name, value)| buffer.push(Property::User(name, value)).unwrap());
        buffer
    }

    fn apart(filter: &str, user: &[(&str, &str)]) -> Result<ParsedSubscription, String> {
        parse(filter, PacketFilter::from_properties(properties(user).get())?)
    }

    #[test]
    fn all_forms_of_a_filter() {
        let plain = apart("a/+", &[("other", "x")]).unwrap();
        assert_eq!((&*plain.key, plain.content), ("a/+", None));
        let query = apart("a/+?k=v&n>5", &[]).unwrap();
        let sql = apart("a/+", &[("$where", "k = 'v' AND n > 5")]).unwrap();
        assert_eq!(query.content, sql.content);
        assert_ne!(
            query.key, sql.key,
            "equal filters with different texts are different subscriptions"
        );
        let before = apart("$where/k = 'v' AND n > 5/a/+", &[]).unwrap();
        assert_eq!(before.content, sql.content);
        for parsed in [&query, &sql, &before] {
            assert_eq!(path(&parsed.key).unwrap().filter, "a/+");
        }
        assert_eq!(sql, apart("a/+", &[("filter", "k = 'v' AND n > 5")]).unwrap());
        let json = apart("a", &[("$where", "n>5"), ("$payload", "json")]).unwrap();
        let fields = apart("a?n>5", &[("$payload", "json")]).unwrap();
        assert!(fields.content.as_ref().unwrap().json);
        let escaped = apart("$where-json/n > %2B5/a", &[]).unwrap();
        assert_eq!(escaped.content, fields.content);
        let literal = apart("$share/g/a?n>5", &[("$literal", "true")]).unwrap();
        assert_eq!((path(&literal.key).unwrap().filter, &literal.content), ("a?n>5", &None));
        assert_eq!(key("a/#", PacketFilter::LITERAL), plain_again().key);
        let plain = PacketFilter::default();
        assert_eq!(other_key("$share/g/a?n>5", plain).as_ref(), Some(&literal.key));
        assert_eq!(other_key("a?n>5", PacketFilter::LITERAL).as_deref(), Some("a?n>5"));
        assert_eq!(other_key("a", plain).or(other_key("a", PacketFilter::LITERAL)), None);
        for asked in [plain_again(), query, sql, before, json, fields, escaped, literal] {
            assert_eq!(parse_key(&asked.key).unwrap(), asked);
        }
        assert!(apart("a?$json&n>5", &[]).unwrap().content.unwrap().json);
        assert!(
            apart("a", &[("$where", "n>5"), ("$payload", "json")]).unwrap().content.unwrap().json
        );
    }

    fn plain_again() -> ParsedSubscription {
        apart("a/#", &[]).unwrap()
    }

    #[test]
    fn columns_do_not_include_the_topic_filter() {
        let long = |conditions: usize| {
            (0..conditions).map(|n| format!("a{n}=1")).collect::<Vec<_>>().join("&")
        };
        let max = Filter::MAX_CONDITIONS;
        let content = apart(&format!("a?{}", long(max)), &[]).unwrap().content.unwrap();
        assert_eq!(content.filter.conditions(), max);
        let error = apart(&format!("a?{}", long(max + 1)), &[]).unwrap_err();
        assert!(error.contains("64 conditions"), "{error}");
    }

    #[test]
    fn the_filter_of_a_packet_is_parsed_once() {
        let properties = properties(&[("$where", "k = 1 OR l = 2"), ("$payload", "json")]);
        let own = PacketFilter::from_properties(properties.get()).unwrap();
        let parser = PacketParser::new(own);
        for filter in ["a", "b/#", "$share/g/a"] {
            assert_eq!(parser.parse(filter), parse(filter, own), "{filter}");
        }
        let first = parser.content.get().expect("parsed");
        assert!(parser.parse("a?n=1").is_err() && parser.parse("c").is_ok());
        assert!(std::ptr::eq(first, parser.content.get().expect("parsed")));
    }

    #[test]
    fn conditions_of_properties_are_put_into_the_text() {
        for text in ["k = 'v'", "a LIKE 'x%' OR b + 1 > c / 2", "é = '#'"] {
            for user in [&[("$where", text)][..], &[("$where", text), ("$payload", "json")]] {
                let own = apart("a/+", user).unwrap();
                let other = in_text(&own.key).expect("a condition in properties");
                assert_eq!(parse_key(&other).unwrap().content, own.content, "{other}");
                assert_eq!(path::path(&other), path::path(&own.key));
            }
        }
        let many = format!("k = '{}'", "/".repeat(50));
        assert_eq!(in_text(&apart("a", &[("$where", &many)]).unwrap().key), None, "it is longer");
        for key in ["a", "a?k=v", "$where/k = 1/a", "a?k=v\0$literal", "a?k=v\0$json"] {
            assert_eq!(in_text(key), None, "{key:?}");
        }
    }

    #[test]
    fn errors_name_their_position() {
        for (filter, user, said) in [
            ("a?", &[][..], "column 1"),
            ("a?k=v&x", &[], "column 5"),
            ("a", &[("$where", "n >> 5")], "column 4"),
            ("a?k=v", &[("$where", "n > 5")], "two filters"),
            ("a", &[("$where", "n > 5"), ("filter", "n > 6")], "two filters"),
            ("a", &[("$where", "n > 5"), ("$payload", "xml")], "`xml`"),
            ("$where/n > 5/a?k=v", &[], "two filters"),
            ("$where/n > 5/a", &[("$where", "n > 5")], "two filters"),
            ("$where/n >> 5/a", &[], "column 4"),
            ("$where/n = 'x%'/a", &[], "%25"),
            ("$where/\"%00filter\" = 1/a", &[], "U+0000"),
            ("a", &[("$payload", "json")], "requires a filter"),
            ("a", &[("where", "n > 5")], "go into `$where`"),
            ("a", &[("Where", "n > 5")], "go into `$where`"),
            ("a", &[("FILTER", "n > 5")], "go into `$where`"),
            ("a", &[("$filter", "n > 5")], "go into `$where`"),
            ("a", &[("$wher", "n > 5")], "go into `$where`"),
            ("a?n>5", &[("payload", "json")], "go into `$where`"),
            ("a?n>5", &[("$literal", "yes")], "must be `true`"),
            ("a", &[("$literal", "true"), ("$where", "n > 5")], "leave one of them out"),
            ("$share/g", &[("$literal", "true")], "$share/GROUP/FILTER"),
        ] {
            let error = apart(filter, user).unwrap_err();
            assert!(error.contains(said), "{filter} {user:?}: {error}");
        }
    }
}
