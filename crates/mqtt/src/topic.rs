//! Topic names and topic filters (MQTT 5 §4.7).
//!
//! A name consists of levels separated by `/`. In a filter `+` matches one level, and a trailing `#` any
//! number of levels.

use crate::error::Error;
use crate::reason::Reason;

pub(crate) const TOPIC_TOO_LONG: Error =
    Error::new(Reason::TOPIC_NAME_INVALID, "a topic is longer than 65535 bytes");

/// Whether `name` is a valid topic name: not empty, at most 65,535 bytes, no wildcards, no NUL.
pub fn is_name(name: &str) -> bool {
    check_name(name).is_ok()
}

#[inline]
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    if name.is_empty() {
        return Err(Error::new(Reason::TOPIC_NAME_INVALID, "the topic is empty"));
    }
    if name.len() > usize::from(u16::MAX) {
        return Err(TOPIC_TOO_LONG);
    }
    if name.bytes().any(|byte| matches!(byte, b'+' | b'#' | 0)) {
        let message = "the topic name contains a wildcard or NUL";
        return Err(Error::new(Reason::TOPIC_NAME_INVALID, message));
    }
    Ok(())
}

/// Whether `filter` is a valid topic filter: not empty, at most 65,535 bytes, no NUL, each wildcard alone in
/// its level, `#` only in the last level. For a shared subscription, pass the part after the group.
///
/// ```
/// use phalanx_mqtt::topic;
///
/// assert!(topic::is_filter("doors/+/state") && topic::is_filter("#") && topic::is_filter("/"));
/// assert!(!topic::is_filter("doors/#/state") && !topic::is_filter("doors+") && !topic::is_filter(""));
/// ```
pub fn is_filter(filter: &str) -> bool {
    if filter.is_empty() || filter.len() > usize::from(u16::MAX) || filter.contains('\0') {
        return false;
    }
    let mut levels = filter.split('/').peekable();
    while let Some(level) = levels.next() {
        let is_valid = match level {
            "+" => true,
            "#" => levels.peek().is_none(),
            level => !level.contains(['+', '#']),
        };
        if !is_valid {
            return false;
        }
    }
    true
}

/// Whether `filter` matches the topic `name`. A leading wildcard does not match names that begin with `$`.
///
/// ```
/// use phalanx_mqtt::topic;
///
/// assert!(topic::matches("doors/+/#", "doors/front") && topic::matches("#", "doors/front"));
/// assert!(!topic::matches("doors/+", "doors/front/state") && !topic::matches("#", "$SYS/uptime"));
/// ```
pub fn matches(filter: &str, name: &str) -> bool {
    if name.starts_with('$') && filter.starts_with(['+', '#']) {
        return false;
    }
    let (mut filter_levels, mut name_levels) = (filter.split('/'), name.split('/'));
    loop {
        match (filter_levels.next(), name_levels.next()) {
            (Some("#"), _) | (None, None) => return true,
            (Some(expected), Some(found)) if expected == "+" || expected == found => (),
            _ => return false,
        }
    }
}

/// The parts of a subscription: the group, if it is shared, and the topic filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared<'a> {
    /// The group's name.
    pub group: Option<&'a str>,
    /// The topic filter.
    pub filter: &'a str,
}

/// Splits `$share/GROUP/FILTER`; other filters have no group. `None` if the group's name is empty or contains
/// a wildcard, or the filter is missing.
///
/// ```
/// use phalanx_mqtt::topic::{self, Shared};
///
/// let shared = topic::shared("$share/workers/jobs/#");
/// assert_eq!(shared, Some(Shared { group: Some("workers"), filter: "jobs/#" }));
/// assert_eq!(topic::shared("jobs/#"), Some(Shared { group: None, filter: "jobs/#" }));
/// assert_eq!(topic::shared("$share/workers"), None);
/// ```
pub fn shared(filter: &str) -> Option<Shared<'_>> {
    let Some(rest) = filter.strip_prefix("$share/") else {
        return (filter != "$share").then_some(Shared { group: None, filter });
    };
    let (group, filter) = rest.split_once('/')?;
    let is_valid = !group.is_empty() && !group.contains(['+', '#']) && !filter.is_empty();
    is_valid.then_some(Shared { group: Some(group), filter })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standards_examples() {
        for (filter, name, expected) in [
            ("sport/tennis/player1/#", "sport/tennis/player1", true),
            ("sport/tennis/player1/#", "sport/tennis/player1/ranking", true),
            ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", true),
            ("sport/#", "sport", true),
            ("sport/tennis/+", "sport/tennis/player1", true),
            ("sport/tennis/+", "sport/tennis/player1/ranking", false),
            ("sport/+", "sport", false),
            ("sport/+", "sport/", true),
            ("+/+", "/finance", true),
            ("/+", "/finance", true),
            ("+", "/finance", false),
            ("#", "$SYS/monitor/Clients", false),
            ("+/monitor/Clients", "$SYS/monitor/Clients", false),
            ("$SYS/#", "$SYS/monitor/Clients", true),
            ("$SYS/monitor/+", "$SYS/monitor/Clients", true),
            ("a/b", "a/b/c", false),
            ("a/b/c", "a/b", false),
            ("A", "a", false),
        ] {
            assert!(is_filter(filter) && is_name(name));
            assert_eq!(matches(filter, name), expected, "{filter} {name}");
        }
    }

    #[test]
    fn wildcards_occupy_a_whole_level() {
        for filter in ["sport/tennis#", "sport/tennis/#/ranking", "sport+", "+sport", "a/+b/c"] {
            assert!(!is_filter(filter), "{filter}");
        }
        assert!(is_filter("+") && is_filter("+/tennis/#") && is_filter("//") && is_filter(" "));
        assert!(
            !is_name("a/+") && !is_name("#") && !is_name("") && is_name("/") && is_name("$SYS")
        );
    }

    #[test]
    fn shared_subscriptions_have_a_name_and_a_filter() {
        for filter in ["$share//a", "$share/g", "$share/g/", "$share/+/a", "$share", "$share/"] {
            assert_eq!(shared(filter), None, "{filter}");
        }
        assert_eq!(shared("$share/g//").unwrap().filter, "/");
    }
}
