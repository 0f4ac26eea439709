//! The attributes of a message that filters test: its user properties and, if a subscription requests them, the fields of
//! a JSON payload.

use std::borrow::Cow;
use std::collections::HashMap;

use phalanx_matcher::{Event, Filter, Value};

use crate::content::index::ContentIndex;
use crate::content::json::{self, Field, NamedField};
use crate::model::message::Message;

/// Encodes `message` as an event, with the payload's fields if `json`.
pub(crate) fn encode_event(message: &Message, json: bool, index: &mut ContentIndex) -> Event {
    match json {
        false => {
            index.encode_event(message.user().map(|(name, text)| (name, Value::Untyped(text))))
        }
        true => {
            index.count_read(message.payload.len());
            index.encode_event(Attributes::new(message, json).list().iter().copied())
        }
    }
}

/// The attributes of a message.
pub(crate) struct Attributes<'m> {
    properties: Vec<(&'m str, Value<'m>)>,
    fields: Vec<NamedField<'m>>,
}

/// The attributes of a message by name, for filters that are evaluated one by one.
pub(crate) type ByName<'a> = HashMap<&'a str, Value<'a>, foldhash::fast::RandomState>;

impl<'m> Attributes<'m> {
    /// The attributes of `message`, including its payload's fields if `json`.
    pub(crate) fn new(message: &'m Message, json: bool) -> Self {
        // A property takes at least five bytes, typically a dozen.
        let mut properties = Vec::with_capacity(message.properties_bytes() / 12 + 1);
        properties.extend(message.user().map(|(name, text)| (name, Value::Untyped(text))));
        let fields = if json { json::fields(&message.payload) } else { Vec::new() };
        Self { properties, fields }
    }

    /// Names and values. If a name occurs several times, the last value counts, so properties take precedence over
    /// fields.
    pub(crate) fn list(&self) -> Cow<'_, [(&str, Value<'_>)]> {
        if self.fields.is_empty() {
            return Cow::Borrowed(&self.properties);
        }
        // A field without a value hides earlier fields of the same name.
        let named = self.fields.iter().enumerate();
        let missing = named.clone().filter(|(_, (_, field))| matches!(field, Field::Missing));
        let hidden: HashMap<&str, usize, foldhash::fast::RandomState> =
            missing.map(|(at, (name, _))| (&**name, at)).collect();
        let fields = named.filter_map(|(at, (name, field))| {
            let value = match field {
                Field::Boolean(value) => Value::Boolean(*value),
                Field::Number(value) => Value::Number(*value),
                // Many devices write numbers as strings.
                Field::String(text) => Value::Untyped(text),
                Field::Missing => return None,
            };
            let is_hidden = hidden.get(&**name).is_some_and(|last| at < *last);
            (!is_hidden).then_some((&**name, value))
        });
        fields.chain(self.properties.iter().copied()).collect()
    }

    /// Whether the attributes satisfy a filter. The work is linear in the number of attributes and in the filter's
    /// length.
    pub(crate) fn satisfy(&self, filter: &Filter) -> bool {
        /// Up to this length, searching a list is faster than hashing it.
        const MAX_SEARCHED: usize = 16;
        let list = self.list();
        if list.len() <= MAX_SEARCHED {
            return filter.matches(&list);
        }
        let by_name: ByName<'_> = list.iter().copied().collect();
        filter.matches_by(&|name| by_name.get(name).copied())
    }
}

#[cfg(test)]
mod tests {
    use phalanx_mqtt::{Delivery, Property, PropertyBuffer, Publish};
    use std::time::Duration;

    use super::*;
    use crate::model::client_key::ClientKey;

    /// Whether a message satisfies a filter on its fields.
    fn satisfies(payload: &str, user: &[(&str, &str)], filter: &str) -> bool {
        let mut properties = PropertyBuffer::new();
        user.iter().for_each(|(name, text)| properties.push(Property::User(name, text)).unwrap());
        let publish = Publish {
            topic: "t",
            payload: payload.as_bytes(),
            delivery: Delivery::AtMostOnce,
            retain: false,
            duplicate: false,
            properties: properties.get(),
        };
        let nobody = ClientKey { partition: 0, slot: 0, generation: 0 };
        let message = Message::of(&publish, "t", (nobody, 0), Duration::ZERO);
        Attributes::new(&message, true).satisfy(&Filter::parse(filter).unwrap())
    }

    #[test]
    fn the_last_field_of_a_name_counts() {
        for last in ["null", "[30]", "{\"x\":30}", "\"\\ud800\"", "10"] {
            let payload = format!("{{\"temp\":30,\"temp\":{last}}}");
            assert!(!satisfies(&payload, &[], "temp > 20"), "{payload}");
            let payload = format!("{{\"temp\":{last},\"temp\":30}}");
            assert!(satisfies(&payload, &[], "temp > 20"), "{payload}");
        }
        assert!(satisfies("{\"temp\":null}", &[("temp", "30")], "temp > 20"));
        assert!(satisfies("{\"temp\":{\"x\":1}}", &[], "temp IS NULL AND temp.x = 1"));
    }

    #[test]
    fn many_attributes_are_found() {
        let many: Vec<_> = (0..1000).map(|n| format!("\"f{n}\":{n}")).collect();
        let payload = format!("{{{}}}", many.join(","));
        assert!(satisfies(&payload, &[("f7", "8")], "f0 = 0 AND f999 = 999 AND f7 = 8"));
        assert!(!satisfies(&payload, &[], "f1000 = 1000"));
    }

    /// JavaScript writes 1 / 300 with this number of digits.
    #[test]
    fn long_numbers_are_compared() {
        let payload = "{\"x\":0.0033333333333333335,\"y\":1e300}";
        assert!(satisfies(payload, &[], "x < 1 AND x > 0.00333 AND y > 5"));
    }
}
