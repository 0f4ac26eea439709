//! The text of messages: the payload, or the whole message as a line of JSON.

use phalanx_mqtt::{Property, Publish};
use serde_json::{Map, Value, json};

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The payload and a newline.
    Payload,
    /// The topic, a space, the payload and a newline.
    WithTopic,
    /// A line of JSON.
    Json,
}

impl Form {
    /// The text of a message.
    pub(super) fn text(self, message: &Publish<'_>) -> Vec<u8> {
        let mut text = Vec::new();
        match self {
            Self::Json => text.extend(to_json(message).to_string().into_bytes()),
            form => {
                if form == Self::WithTopic {
                    text.extend(message.topic.as_bytes());
                    text.push(b' ');
                }
                text.extend(message.payload);
            }
        }
        text.push(b'\n');
        text
    }
}

/// The message as JSON; a payload that is not UTF-8 is in hexadecimal.
fn to_json(message: &Publish<'_>) -> Value {
    let mut all = Map::new();
    all.insert("topic".into(), message.topic.into());
    match std::str::from_utf8(message.payload) {
        Ok(text) => all.insert("payload".into(), text.into()),
        Err(_) => all.insert("payload_hex".into(), hex(message.payload).into()),
    };
    all.insert("qos".into(), (message.delivery.qos() as u8).into());
    all.insert("retain".into(), message.retain.into());
    let (mut user, mut identifiers) = (Vec::new(), Vec::new());
    for property in message.properties {
        let (name, value) = match property {
            // An array rather than an object, since names may repeat and the order matters.
            Property::User(name, value) => {
                user.push(json!([name, value]));
                continue;
            }
            Property::SubscriptionIdentifier(number) => {
                identifiers.push(json!(number));
                continue;
            }
            Property::PayloadIsText(is) => ("payload_is_text", is.into()),
            Property::MessageExpiry(seconds) => ("expiry", seconds.into()),
            Property::ContentType(text) => ("content_type", text.into()),
            Property::ResponseTopic(topic) => ("response_topic", topic.into()),
            Property::CorrelationData(bytes) => ("correlation_hex", hex(bytes).into()),
            _ => continue,
        };
        all.insert(name.into(), value);
    }
    if !user.is_empty() {
        all.insert("user_properties".into(), user.into());
    }
    if !identifiers.is_empty() {
        all.insert("subscriptions".into(), identifiers.into());
    }
    Value::Object(all)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use phalanx_mqtt::{Delivery, PropertyBuffer};

    use super::*;

    #[test]
    fn json_contains_all_of_a_message() {
        let mut properties = PropertyBuffer::new();
        for property in [
            Property::User("k", "1"),
            Property::User("k", "2"),
            Property::ContentType("text/plain"),
            Property::MessageExpiry(60),
        ] {
            properties.push(property).unwrap();
        }
        let mut message = Publish {
            topic: "a/b",
            payload: b"x\"y",
            delivery: Delivery::AtMostOnce,
            retain: true,
            duplicate: false,
            properties: properties.get(),
        };
        let expected = json!({
            "topic": "a/b", "payload": "x\"y", "qos": 0, "retain": true,
            "user_properties": [["k", "1"], ["k", "2"]], "content_type": "text/plain", "expiry": 60,
        });
        assert_eq!(to_json(&message), expected);
        message.payload = &[0xff, 0x01];
        let json = to_json(&message);
        assert_eq!((json.get("payload"), &json["payload_hex"]), (None, &json!("ff01")));
    }
}
