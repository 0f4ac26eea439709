//! Reads the fields of a JSON object in one pass over its text, with exact numbers. Time and memory are linear in the
//! length of the text, whatever it contains.

mod reader;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use phalanx_matcher::Number;

use crate::content::json::reader::Reader;

/// The name and the value of a field. The name of a nested field is its path: `position.lat`.
pub(super) type NamedField<'m> = (Cow<'m, str>, Field<'m>);

/// The value of a field.
#[derive(Debug, PartialEq)]
pub(super) enum Field<'m> {
    Boolean(bool),
    Number(Number),
    String(Cow<'m, str>),
    /// `null`, an array, an object, or a string with an unpaired surrogate. It hides earlier fields of the same name.
    Missing,
}

/// Limits of nested fields: depth, length of the path, and number in a message. They bound the memory of the paths,
/// because a short payload could repeat a long path. Fields beyond a limit are ignored.
const MAX_DEPTH: usize = 8;
const MAX_PATH_BYTES: usize = 256;
const MAX_NESTED: usize = 1024;

/// The fields of `payload` in order; empty unless it is a JSON object.
pub(super) fn fields(payload: &[u8]) -> Vec<NamedField<'_>> {
    // The first byte identifies most payloads that are not objects.
    if payload.trim_ascii_start().first() != Some(&b'{') {
        return Vec::new();
    }
    let Ok(text) = str::from_utf8(payload) else { return Vec::new() };
    let fields = Fields::default();
    fields.read(Reader::new(text)).unwrap_or_default()
}

/// The fields found so far.
#[derive(Default)]
struct Fields<'m> {
    fields: Vec<NamedField<'m>>,
    /// The path of the innermost open object whose fields have names.
    path: String,
    /// For each open object whose fields have names, the length of its parent's path. These objects are the outermost
    /// open containers.
    named: Vec<usize>,
    /// The number of nested fields so far.
    nested: usize,
}

impl<'m> Fields<'m> {
    /// `None` if the text is not an object.
    fn read(mut self, mut text: Reader<'m>) -> Option<Vec<NamedField<'m>>> {
        if text.token()? != b'{' {
            return None;
        }
        // For each open container, whether it is an object.
        let mut open = vec![true];
        self.named.push(0);
        let mut has_element = false;
        while let Some(&is_object) = open.last() {
            let mut byte = text.token()?;
            if byte == if is_object { b'}' } else { b']' } {
                if self.named.len() == open.len() {
                    let parent_length = self.named.pop();
                    self.path.truncate(parent_length.unwrap_or_default());
                }
                open.pop();
                has_element = true;
                continue;
            }
            if has_element {
                if byte != b',' {
                    return None;
                }
                byte = text.token()?;
            }
            has_element = true;
            let mut name = None;
            if is_object {
                if byte != b'"' {
                    return None;
                }
                let own = text.string()?.filter(|_| self.named.len() == open.len());
                name = own.and_then(|name| self.qualify(name));
                if text.token()? != b':' {
                    return None;
                }
                byte = text.token()?;
            }
            let field = match byte {
                b'{' | b'[' => {
                    if byte == b'{' {
                        self.enter(name.as_deref());
                    }
                    open.push(byte == b'{');
                    has_element = false;
                    Field::Missing
                }
                b'"' => text.string()?.map_or(Field::Missing, Field::String),
                b'-' | b'0'..=b'9' => {
                    let digits = text.number()?;
                    match name {
                        Some(_) => number(digits).map_or(Field::Missing, Field::Number),
                        None => continue,
                    }
                }
                b't' => text.rest("rue").map(|()| Field::Boolean(true))?,
                b'f' => text.rest("alse").map(|()| Field::Boolean(false))?,
                b'n' => text.rest("ull").map(|()| Field::Missing)?,
                _ => return None,
            };
            self.fields.extend(name.map(|name| (name, field)));
        }
        text.token().is_none().then_some(self.fields)
    }

    /// The path of a field of the current object. `None` if it exceeds a limit.
    fn qualify(&mut self, name: Cow<'m, str>) -> Option<Cow<'m, str>> {
        if self.named.len() == 1 {
            return Some(name);
        }
        self.nested += 1;
        let fits = self.path.len() + name.len() < MAX_PATH_BYTES && self.nested <= MAX_NESTED;
        fits.then(|| Cow::Owned(format!("{}.{name}", self.path)))
    }

    /// Enters an object, whose fields have names if it has a path within the limits.
    fn enter(&mut self, path: Option<&str>) {
        if let Some(path) = path
            && self.named.len() <= MAX_DEPTH
            && path.len() < MAX_PATH_BYTES
        {
            let parent_length = self.path.len();
            self.named.push(parent_length);
            self.path.push_str(&path[parent_length..]);
        }
    }
}

/// The number of decimal places of a [`Number`].
const DECIMAL_PLACES: usize = 18;

/// A number with more digits than a [`Number`] can hold is truncated and clamped. A number with an exponent is first
/// parsed as a double.
fn number(digits: &str) -> Option<Number> {
    let truncated = || {
        let (whole, fraction) = digits.split_once('.').filter(|_| !digits.contains(['e', 'E']))?;
        Number::parse(&format!("{whole}.{}", &fraction[..DECIMAL_PLACES.min(fraction.len())])).ok()
    };
    let nearest = || Number::nearest(digits.parse().ok()?);
    Number::parse(digits).ok().or_else(truncated).or_else(nearest)
}
