//! Types of values: their TOML forms, and messages for invalid values.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::de::DeValue;

use crate::units;

/// The TOML form of a type `T`, implemented by the type itself, or by a marker type if `T` belongs to another
/// crate.
///
/// ```
/// use phalanx_config::{Given, Value, Written, choices};
///
/// enum Fruit { Apple, Pear }
/// choices!(Fruit as Fruit: Fruit::Apple = "apple", Fruit::Pear = "pear";);
/// assert_eq!(Fruit::expected(), "\"apple\" or \"pear\"");
///
/// /// A pair of numbers, written as a text.
/// struct Pair;
///
/// impl Value<(u8, u8)> for Pair {
///     fn kind() -> String {
///         "pair".into()
///     }
///
///     fn expected() -> String {
///         "two numbers such as \"1:2\"".into()
///     }
///
///     fn read(value: &Given<'_>) -> Result<(u8, u8), String> {
///         let (one, two) = value.as_str().and_then(|text| text.split_once(':')).ok_or("")?;
///         let number = |text: &str| text.parse().map_err(|_| format!("{text} is not a small number"));
///         Ok((number(one)?, number(two)?))
///     }
///
///     fn print(value: &(u8, u8)) -> Written {
///         format!("{}:{}", value.0, value.1).into()
///     }
/// }
/// ```
pub trait Value<T = Self> {
    /// Whether the form is a list.
    const LIST: bool = false;

    /// Name of the type, or of a list's elements, for help and reference; alternatives are separated by `|`.
    fn kind() -> String;
    /// Description of a valid value, which follows "expected".
    fn expected() -> String;
    /// Parses a value.
    ///
    /// # Errors
    /// The reason, or an empty text if the [expected](Self::expected) form says enough.
    fn read(value: &DeValue<'_>) -> Result<T, String>;
    /// Formats a value such that it parses to the same.
    fn print(value: &T) -> toml::Value;
    /// Resolves relative paths against `base`.
    fn resolve(_value: &mut T, _base: &Path) {}
}

impl Value for bool {
    fn kind() -> String {
        "bool".into()
    }

    fn expected() -> String {
        "true or false".into()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        value.as_bool().ok_or_else(String::new)
    }

    fn print(value: &Self) -> toml::Value {
        (*value).into()
    }
}

/// Parses a non-negative integer in any of TOML's notations.
///
/// # Errors
/// An empty text if the value is not one.
pub fn integer(value: &DeValue<'_>) -> Result<u64, String> {
    let integer = value.as_integer().ok_or_else(String::new)?;
    u64::from_str_radix(integer.as_str(), integer.radix()).map_err(|_| String::new())
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Value for $type {
            fn kind() -> String {
                "number".into()
            }

            fn expected() -> String {
                match <$type>::BITS {
                    64.. => "a number".into(),
                    _ => format!("a number from 0 to {}", <$type>::MAX),
                }
            }

            fn read(value: &DeValue<'_>) -> Result<Self, String> {
                integer(value)?.try_into().map_err(|_| String::new())
            }

            fn print(value: &Self) -> toml::Value {
                toml::Value::Integer(i64::try_from(*value).unwrap_or(i64::MAX))
            }
        }
    )*};
}
integers!(u16, u32, u64, usize);

/// Sizes in bytes.
pub struct Size;

macro_rules! sizes {
    ($($type:ty),*) => {$(
        impl Value<$type> for Size {
            fn kind() -> String {
                "size".into()
            }

            fn expected() -> String {
                "a number of bytes, or a size such as \"64K\", \"256M\" or \"2G\"".into()
            }

            fn read(value: &DeValue<'_>) -> Result<$type, String> {
                let bytes = match value.as_str() {
                    Some(text) => units::size(text)?,
                    None => integer(value)?,
                };
                bytes.try_into().map_err(|_| String::new())
            }

            fn print(value: &$type) -> toml::Value {
                // Use the largest unit without a fraction.
                for (unit, shift) in [("G", 30), ("M", 20), ("K", 10)] {
                    if *value >> shift << shift == *value && *value > 0 {
                        return format!("{}{unit}", *value >> shift).into();
                    }
                }
                <$type>::print(value)
            }
        }
    )*};
}
sizes!(u64, usize);

impl Value for f64 {
    fn kind() -> String {
        "number".into()
    }

    fn expected() -> String {
        "a non-negative number".into()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        let number = match value.as_float() {
            Some(float) => float.as_str().parse().map_err(|_| String::new())?,
            None => integer(value)? as f64,
        };
        if f64::is_finite(number) && number >= 0.0 { Ok(number) } else { Err(String::new()) }
    }

    fn print(value: &Self) -> toml::Value {
        (*value).into()
    }
}

impl Value for String {
    fn kind() -> String {
        "text".into()
    }

    fn expected() -> String {
        "a quoted string".into()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        value.as_str().map(str::to_owned).ok_or_else(String::new)
    }

    fn print(value: &Self) -> toml::Value {
        value.clone().into()
    }
}

impl Value for PathBuf {
    fn kind() -> String {
        "path".into()
    }

    fn expected() -> String {
        "a quoted path".into()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        match value.as_str() {
            Some(text) if !text.is_empty() => Ok(text.into()),
            _ => Err(String::new()),
        }
    }

    fn print(value: &Self) -> toml::Value {
        value.to_string_lossy().into_owned().into()
    }

    fn resolve(path: &mut Self, base: &Path) {
        *path = base.join(&path).components().collect();
    }
}

impl Value for Duration {
    fn kind() -> String {
        "time".into()
    }

    fn expected() -> String {
        "a time such as \"20us\", \"500ms\", \"30s\", \"5m\", \"2h\" or \"7d\"".into()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        value.as_str().and_then(|text| units::duration(text).ok()).ok_or_else(String::new)
    }

    fn print(value: &Self) -> toml::Value {
        // Use the largest unit without a fraction.
        let text = match value.as_nanos() {
            _ if value.subsec_nanos() == 0 => format!("{}s", value.as_secs()),
            n if n % 1_000_000 == 0 => format!("{}ms", n / 1_000_000),
            n if n % 1000 == 0 => format!("{}us", n / 1000),
            n => format!("{n}ns"),
        };
        text.into()
    }
}

/// `false` stands for `None`.
impl<T: Value> Value for Option<T> {
    fn kind() -> String {
        format!("{}|false", T::kind())
    }

    fn expected() -> String {
        format!("{}, or false for none", T::expected())
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        match value {
            DeValue::Boolean(false) => Ok(None),
            _ => T::read(value).map(Some),
        }
    }

    fn print(value: &Self) -> toml::Value {
        value.as_ref().map_or(false.into(), T::print)
    }

    fn resolve(value: &mut Self, base: &Path) {
        if let Some(value) = value {
            T::resolve(value, base);
        }
    }
}

/// A list; a single element needs no brackets.
impl<T: Value> Value for Vec<T> {
    const LIST: bool = true;

    fn kind() -> String {
        T::kind()
    }

    fn expected() -> String {
        format!("{}; or several, as a list in brackets", T::expected())
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        match value {
            DeValue::Array(array) => {
                let one = |item: &DeValue<'_>| {
                    // Name the invalid element of a long list.
                    let name_element = |reason: String| match item.as_str() {
                        Some(text) if reason.is_empty() && array.len() > 1 => {
                            format!("not {text:?}")
                        }
                        _ => reason,
                    };
                    T::read(item).map_err(name_element)
                };
                array.iter().map(|item| one(item.get_ref())).collect()
            }
            _ => Ok(vec![T::read(value)?]),
        }
    }

    fn print(value: &Self) -> toml::Value {
        toml::Value::Array(value.iter().map(T::print).collect())
    }
}

impl Value for SocketAddr {
    fn kind() -> String {
        "address".into()
    }

    fn expected() -> String {
        "an address and a port such as \"127.0.0.1:8080\" or \"[::]:80\"".into()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        value.as_str().and_then(|text| text.parse().ok()).ok_or_else(String::new)
    }

    fn print(value: &Self) -> toml::Value {
        value.to_string().into()
    }
}
