//! The attributes of a message that filters test: its user properties and, for subscriptions that request it,
//! the top-level fields of a JSON payload.

use std::borrow::Cow;

use phalanx_matcher::{Event, Number, Value};
use serde::Deserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::content::index::ContentIndex;
use crate::model::message::Message;

/// Encodes `message` as an event; with the payload's fields if `json`.
pub(crate) fn code(message: &Message, json: bool, index: &mut ContentIndex) -> Event {
    match json {
        false => index.code(message.user().map(|(name, text)| (name, Value::Untyped(text)))),
        true => index.code(Attributes::of(message, json).list().iter().copied()),
    }
}

/// The attributes of a message.
pub(crate) struct Attributes<'m> {
    properties: Vec<(&'m str, Value<'m>)>,
    fields: Fields<'m>,
}

/// The fields of a payload; empty unless the payload is a JSON object.
#[derive(Default)]
struct Fields<'m>(Vec<(Cow<'m, str>, Field<'m>)>);

enum Field<'m> {
    Boolean(bool),
    Number(Number),
    String(Cow<'m, str>),
}

impl<'m> Attributes<'m> {
    /// The attributes of `message`, including its payload's fields if `json`.
    pub(crate) fn of(message: &'m Message, json: bool) -> Self {
        // A property takes at least five bytes, typically a dozen.
        let mut properties = Vec::with_capacity(message.properties_bytes() / 12 + 1);
        properties.extend(message.user().map(|(name, text)| (name, Value::Untyped(text))));
        let fields = match json {
            true => Fields::of(&message.payload),
            false => Fields::default(),
        };
        Self { properties, fields }
    }

    /// Names and values. Of several attributes with one name the last counts, so properties take precedence
    /// over fields.
    pub(crate) fn list(&self) -> Cow<'_, [(&str, Value<'_>)]> {
        if self.fields.0.is_empty() {
            return Cow::Borrowed(&self.properties);
        }
        let fields = self.fields.0.iter().map(|(name, field)| {
            let value = match field {
                Field::Boolean(value) => Value::Boolean(*value),
                Field::Number(value) => Value::Number(*value),
                Field::String(text) => Value::String(text),
            };
            (&**name, value)
        });
        fields.chain(self.properties.iter().copied()).collect()
    }
}

impl<'m> Fields<'m> {
    fn of(payload: &'m [u8]) -> Self {
        // The first byte identifies most payloads that are not objects.
        let first = payload.iter().find(|byte| !byte.is_ascii_whitespace());
        if first != Some(&b'{') {
            return Self::default();
        }
        let mut reader = serde_json::Deserializer::from_slice(payload);
        let fields = reader.deserialize_map(Object);
        match reader.end() {
            Ok(()) => fields.unwrap_or_default(),
            Err(_) => Self::default(),
        }
    }
}

/// Visits an object and collects its numbers, booleans and strings. Other fields are ignored.
struct Object;

impl<'m> Visitor<'m> for Object {
    type Value = Fields<'m>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'m>>(self, mut map: A) -> Result<Fields<'m>, A::Error> {
        let mut fields = Vec::new();
        while let Some(name) = map.next_key::<Text<'m>>()? {
            let value: &RawValue = map.next_value()?;
            let text = value.get();
            let field = match text.as_bytes().first() {
                Some(b't') => Field::Boolean(true),
                Some(b'f') => Field::Boolean(false),
                Some(b'"') => {
                    let Text(text) = serde_json::from_str(text).map_err(A::Error::custom)?;
                    Field::String(text)
                }
                // Parsed exactly. A number too long to be compared is ignored.
                Some(b'-' | b'0'..=b'9') => match Number::parse(text) {
                    Ok(number) => Field::Number(number),
                    Err(_) => continue,
                },
                _ => continue,
            };
            fields.push((name.0, field));
        }
        Ok(Fields(fields))
    }
}

/// A string, borrowed unless it has escapes.
#[derive(serde::Deserialize)]
struct Text<'m>(#[serde(borrow)] Cow<'m, str>);
