//! Values of attributes in an event ([`Value`]), and the constants with which a filter compares them ([`Literal`]).

use std::fmt;

use crate::number::Number;

/// The value of one attribute of an event.
///
/// A comparison reads a value as its literal's type. A value without that type counts as missing: `price > 5`
/// is unknown for the string `'cheap'`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// `TRUE` or `FALSE`.
    Boolean(bool),
    /// An integer or a decimal.
    Number(Number),
    /// A string, never a number even if it looks like one.
    String(&'a str),
    /// A text whose sender could not state its type, such as a header's value. It is a string, and also the
    /// number or boolean that it spells: `17` satisfies both `x = 17` and `x = '17'`.
    Untyped(&'a str),
}

impl<'a> Value<'a> {
    /// The value as a boolean, if it is one.
    #[must_use]
    pub fn boolean(self) -> Option<bool> {
        match self {
            Value::Boolean(value) => Some(value),
            Value::Untyped(text) if text.eq_ignore_ascii_case("true") => Some(true),
            Value::Untyped(text) if text.eq_ignore_ascii_case("false") => Some(false),
            _ => None,
        }
    }

    /// The value as a number, if it is one.
    #[must_use]
    pub fn number(self) -> Option<Number> {
        match self {
            Value::Number(value) => Some(value),
            Value::Untyped(text) => {
                // The first byte already shows that most texts are not numbers.
                let first = *text.as_bytes().first()?;
                if !(first.is_ascii_digit() || matches!(first, b'+' | b'-' | b'.')) {
                    return None;
                }
                Number::parse(text).ok()
            }
            _ => None,
        }
    }

    /// The value as a string, if it is one.
    #[must_use]
    pub fn string(self) -> Option<&'a str> {
        match self {
            Value::String(text) | Value::Untyped(text) => Some(text),
            _ => None,
        }
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Value::Boolean(value)
    }
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Value::Number(value.into())
    }
}

impl From<Number> for Value<'_> {
    fn from(value: Number) -> Self {
        Value::Number(value)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::String(text)
    }
}

/// A constant in a filter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Literal {
    /// `TRUE` or `FALSE`.
    Boolean(bool),
    /// `17`, `-1.5`, `2e6`.
    Number(Number),
    /// `'it''s'`.
    String(Box<str>),
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Literal::Boolean(true) => f.write_str("TRUE"),
            Literal::Boolean(false) => f.write_str("FALSE"),
            Literal::Number(number) => write!(f, "{number}"),
            Literal::String(text) => write!(f, "'{}'", text.replace('\'', "''")),
        }
    }
}
