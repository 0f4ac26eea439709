//! Validation of messages before a broker forwards them.
//!
//! A receiver may close its connection because of an invalid message. It reconnects and receives the message
//! again, so a single message can keep all strict subscribers of its topic disconnected.

use crate::error::Error;
use crate::properties::{Properties, Property};
use crate::reason::Reason;
use crate::topic;
use crate::wire::has_disallowed;

/// Checks the content of a message to be forwarded. An empty `topic` stands for an alias and is not checked.
///
/// # Errors
/// - [`Reason::MALFORMED_PACKET`]: the topic, the response topic, the content type or a user property contains a
///   disallowed Unicode code point (§1.5.4): a control character or a non-character.
/// - [`Reason::PROTOCOL_ERROR`]: the response topic is empty or has wildcards (§3.3.2.3.5).
/// - [`Reason::PAYLOAD_FORMAT_INVALID`]: the payload is declared as UTF-8, but is not (§3.3.2.3.2).
///
/// ```
/// use phalanx_mqtt::{Property, PropertyBuffer, Reason, check_content};
///
/// let mut properties = PropertyBuffer::new();
/// properties.push(Property::ResponseTopic("answers/#"))?;
/// let error = check_content("questions", properties.get(), b"?").unwrap_err();
/// assert_eq!(error.reason, Reason::PROTOCOL_ERROR);
/// # Ok::<(), phalanx_mqtt::Error>(())
/// ```
#[inline]
pub fn check_content(topic: &str, properties: Properties<'_>, payload: &[u8]) -> Result<(), Error> {
    if has_disallowed(topic) {
        return Err(Error::malformed("the topic contains a control character or a non-character"));
    }
    if properties.have_disallowed() {
        return Err(Error::malformed("a property contains a control character or a non-character"));
    }
    match properties.are_user() {
        true => Ok(()),
        false => check_properties(properties, payload),
    }
}

fn check_properties(properties: Properties<'_>, payload: &[u8]) -> Result<(), Error> {
    for property in properties {
        match property {
            Property::ResponseTopic(topic) if !topic::is_name(topic) => {
                return Err(Error::protocol("the response topic is empty or contains a wildcard"));
            }
            Property::PayloadIsText(true) if std::str::from_utf8(payload).is_err() => {
                let message = "the payload is declared as UTF-8, but is not";
                return Err(Error::new(Reason::PAYLOAD_FORMAT_INVALID, message));
            }
            _ => (),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PropertyBuffer;

    fn reason(topic: &str, properties: &[Property<'_>], payload: &[u8]) -> Option<Reason> {
        let mut buffer = PropertyBuffer::new();
        properties.iter().for_each(|property| buffer.push(*property).unwrap());
        let written = check_content(topic, buffer.get(), payload);
        // The check gives the same result for encoded and decoded properties.
        let read = Properties::from_bytes(buffer.get().as_bytes()).unwrap();
        assert_eq!(check_content(topic, read, payload), written);
        written.err().map(|error| error.reason)
    }

    #[test]
    fn content_that_strict_receivers_reject() {
        let (protocol, malformed) = (Reason::PROTOCOL_ERROR, Reason::MALFORMED_PACKET);
        for topic in ["", "a/#", "+", "a/+/b"] {
            assert_eq!(reason("t", &[Property::ResponseTopic(topic)], b""), Some(protocol));
        }
        for (topic, property) in [
            ("t", Property::User("k", "a\nb")),
            ("t", Property::User("\u{7f}", "v")),
            ("t", Property::ContentType("\u{1}")),
            ("t", Property::ResponseTopic("a\u{85}")),
            ("t\u{ffff}", Property::User("k", "v")),
        ] {
            // With user properties only, and with other properties, whose bytes are not all UTF-8.
            for other in [Property::User("k", "v"), Property::MessageExpiry(0xffff_ffff)] {
                assert_eq!(reason(topic, &[property, other], b""), Some(malformed), "{property:?}");
            }
        }
        let text = Property::PayloadIsText(true);
        assert_eq!(reason("t", &[text], b"\xff"), Some(Reason::PAYLOAD_FORMAT_INVALID));
    }

    #[test]
    fn content_that_is_forwarded() {
        let all = [
            Property::PayloadIsText(true),
            Property::ResponseTopic("answers/$1"),
            Property::CorrelationData(b"\0\xff"),
            Property::ContentType("text/plain; charset=utf-8"),
            Property::User("", "Grüße 🦀"),
        ];
        assert_eq!(reason("t/é", &all, "é".as_bytes()), None);
        assert_eq!(reason("", &[Property::PayloadIsText(false)], b"\xff\0"), None);
    }
}
