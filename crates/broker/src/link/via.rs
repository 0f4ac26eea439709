//! The path of brokers that a message has passed, in user properties. A bridge adds the identifier of its broker to each
//! message that it sends or receives.

use phalanx_mqtt::Properties;

/// The name of the user property.
pub(super) const NAME: &str = "bridge-via";

/// The suffix of the value that a bridge adds to a received message. Another bridge of the same broker may forward that
/// message.
const RECEIVED: &str = "/in";

/// Maximum number of entries of a path. A message with more is dropped.
const MAX_ENTRIES: usize = 32;

/// The value that a bridge adds to a message that it receives.
pub(super) fn received(own: &str) -> String {
    format!("{own}{RECEIVED}")
}

/// Whether a message that a bridge receives has passed the broker with identifier `own`, or too many brokers.
pub(super) fn has_passed(properties: Properties<'_>, own: &str) -> bool {
    passed(properties, own).is_some_and(|(times, _)| times > 0)
}

/// Whether a message that a bridge sends has passed the broker with identifier `own` earlier, or too many brokers.
pub(super) fn has_returned(properties: Properties<'_>, own: &str) -> bool {
    passed(properties, own).is_some_and(|(times, is_here)| times > usize::from(is_here))
}

/// How often a message has passed broker `own`, and whether a bridge of that broker received it last. `None` if it has no
/// path. With too many entries, the number is `usize::MAX`.
fn passed(properties: Properties<'_>, own: &str) -> Option<(usize, bool)> {
    if properties.is_empty() {
        return None;
    }
    let (mut times, mut entries, mut last) = (0, 0, None);
    for (_, value) in properties.user().filter(|(name, _)| *name == NAME) {
        entries += 1;
        times += usize::from(value.strip_suffix(RECEIVED).unwrap_or(value) == own);
        last = Some(value);
    }
    if entries >= MAX_ENTRIES {
        return Some((usize::MAX, false));
    }
    last.map(|last| (times, last.strip_suffix(RECEIVED) == Some(own)))
}

/// Maximum number of bytes that an entry of `own` adds to a packet: the entry itself, and growth of the length field of
/// the properties.
pub(super) fn size(own: &str) -> usize {
    1 + 2 + NAME.len() + 2 + own.len() + RECEIVED.len() + 3
}

#[cfg(test)]
mod tests {
    use phalanx_mqtt::{Property, PropertyBuffer};

    use super::*;

    fn path(entries: &[&str]) -> PropertyBuffer {
        let mut buffer = PropertyBuffer::new();
        buffer.push(Property::User("other", "a")).unwrap();
        entries.iter().for_each(|entry| buffer.push(Property::User(NAME, entry)).unwrap());
        buffer
    }

    #[test]
    fn returning_messages_are_recognized() {
        for (entries, has_passed_a, has_returned_a) in [
            (&[][..], false, false),
            (&["b", "c/in"], false, false),
            (&["a"], true, true),
            // Received by a bridge of this broker, and sent by another.
            (&["b", "a/in"], true, false),
            (&["a", "b", "a/in"], true, true),
            (&["a/in", "a"], true, true),
            (&["a/in", "b"], true, true),
            (&["b"; MAX_ENTRIES], true, true),
        ] {
            let buffer = path(entries);
            assert_eq!(has_passed(buffer.get(), "a"), has_passed_a, "{entries:?}");
            assert_eq!(has_returned(buffer.get(), "a"), has_returned_a, "{entries:?}");
        }
        assert_eq!(received("a"), "a/in");
    }
}
