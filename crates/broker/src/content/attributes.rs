//! The attributes of a message that filters test: its user properties and, for subscriptions that request it,
//! the fields of a JSON payload. The name of a nested field is its path: `position.lat`.

use std::borrow::Cow;
use std::collections::HashMap;

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

/// The attributes of a message by name, for filters that are evaluated one by one.
pub(crate) type ByName<'a> = HashMap<&'a str, Value<'a>, foldhash::fast::RandomState>;

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
                // Many devices write numbers as strings.
                Field::String(text) => Value::Untyped(text),
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
        let mut fields = Vec::new();
        let object = Object { path: "", depth: 0, nested: &mut 0, fields: &mut fields };
        match reader.deserialize_map(object).and_then(|()| reader.end()) {
            Ok(()) => Self(fields),
            Err(_) => Self::default(),
        }
    }
}

/// Limits of nested fields: their depth, the length of their paths, and their number in a message. They bound the
/// memory of the paths, since a short payload could repeat a long one. Further fields are ignored.
const MAX_DEPTH: usize = 8;
const MAX_PATH_BYTES: usize = 256;
const MAX_NESTED: usize = 1024;

/// Visits an object and collects its numbers, booleans and strings, and those of nested objects. Other fields are
/// ignored.
struct Object<'o, 'm> {
    /// The path of this object; empty for the payload.
    path: &'o str,
    depth: usize,
    /// The number of nested fields so far.
    nested: &'o mut usize,
    fields: &'o mut Vec<(Cow<'m, str>, Field<'m>)>,
}

impl<'m> Object<'_, 'm> {
    /// The path of a field of this object. `None` if it exceeds a limit.
    fn path_of(&mut self, name: Cow<'m, str>) -> Option<Cow<'m, str>> {
        if self.depth == 0 {
            return Some(name);
        }
        *self.nested += 1;
        let fits = self.path.len() + name.len() < MAX_PATH_BYTES && *self.nested <= MAX_NESTED;
        fits.then(|| Cow::Owned(format!("{}.{name}", self.path)))
    }
}

impl<'m> Visitor<'m> for Object<'_, 'm> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'m>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<Text<'m>>()? {
            let value: &RawValue = map.next_value()?;
            let text = value.get();
            let Some(path) = self.path_of(name.0) else { continue };
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
                Some(b'{') if self.depth < MAX_DEPTH && path.len() < MAX_PATH_BYTES => {
                    let Self { depth, nested, fields, .. } = &mut self;
                    let inner = Object { path: &path, depth: *depth + 1, nested, fields };
                    let read = serde_json::Deserializer::from_str(text).deserialize_map(inner);
                    read.map_err(A::Error::custom)?;
                    continue;
                }
                _ => continue,
            };
            self.fields.push((path, field));
        }
        Ok(())
    }
}

/// A string, borrowed unless it has escapes.
#[derive(serde::Deserialize)]
struct Text<'m>(#[serde(borrow)] Cow<'m, str>);

#[cfg(test)]
mod tests {
    use super::*;

    /// The names and values of a payload's fields.
    fn fields(payload: &str) -> Vec<String> {
        let fields = Fields::of(payload.as_bytes()).0;
        let shown = fields.iter().map(|(name, field)| match field {
            Field::Boolean(value) => format!("{name}={value}"),
            Field::Number(value) => format!("{name}={value}"),
            Field::String(value) => format!("{name}='{value}'"),
        });
        shown.collect()
    }

    #[test]
    fn nested_fields_have_paths() {
        let payload = r#"{"a": 1, "b": {"c": "x", "d": {"e": true}, "f": [1], "g": null}, "b.c": 2, "h": {}}"#;
        assert_eq!(fields(payload), ["a=1", "b.c='x'", "b.d.e=true", "b.c=2"]);
        assert!(fields(r#"{"a": {"b": 1}} x"#).is_empty() && fields("[{\"a\": 1}]").is_empty());
    }

    #[test]
    fn nested_fields_are_bounded() {
        let deep =
            |levels: usize| format!("{}1{}", "{\"a\":".repeat(levels + 1), "}".repeat(levels + 1));
        assert_eq!(fields(&deep(MAX_DEPTH)), [format!("a{}=1", ".a".repeat(MAX_DEPTH))]);
        assert!(fields(&deep(MAX_DEPTH + 1)).is_empty() && fields(&deep(100)).is_empty());
        let many: Vec<_> = (0..2 * MAX_NESTED).map(|n| format!("\"{n}\":{n}")).collect();
        let many = many.join(",");
        assert_eq!(fields(&format!("{{\"a\":{{{many}}}}}")).len(), MAX_NESTED);
        assert_eq!(fields(&format!("{{{many}}}")).len(), 2 * MAX_NESTED, "not nested");
        let long = "l".repeat(MAX_PATH_BYTES);
        assert_eq!(
            fields(&format!("{{\"{long}\":{{\"a\":1}},\"b\":{{\"{long}\":1,\"c\":2}}}}")),
            ["b.c=2"]
        );
    }
}
