//! The configuration dialect: keys are declared once, and set by TOML files, flags and environment variables.
//!
//! Each key is declared once, in an implementation of [`Keys`], which [`settings!`] writes for most structs. Reading,
//! writing, listing and checking the keys are [passes](Pass) over the declarations. Reading does not stop at the first
//! error: the operator gets all of them, each with its line and column, or its flag. This crate opens no files.
//!
//! | file | idea |
//! |---|---|
//! | `pass.rs` | a pass over declarations |
//! | `settings.rs` | a struct and its declarations in one place |
//! | `reader.rs` | reading a table over existing values |
//! | `declaration.rs` | listing the declarations, for flags and variables |
//! | `reference.rs` | the reference page of the keys |
//! | `value.rs` | the TOML forms of types, and messages for invalid values |
//! | `error.rs` | errors and the positions of keys |
//! | `units.rs` | sizes and durations |
//! | `difference.rs` | comparison of two configurations |
//!
//! ```
//! use phalanx_config::{Origins, settings};
//!
//! settings! {
//!     #[derive(Clone)]
//!     struct Garden {
//!         trees: u16 => range("trees", 1.., "number of trees");
//!         gate: Option<String> => key("gate", "name of the gate");
//!     }
//! }
//!
//! let mut garden = Garden::default();
//! let mut origins = Origins::default();
//! phalanx_config::read(&mut garden, "trees = 2", "garden.toml", "".as_ref(), &mut origins).unwrap();
//! assert_eq!(phalanx_config::table(&garden).to_string(), "gate = false\ntrees = 2\n");
//!
//! let text = "trees = 3\ngaet = 'east'";
//! let errors =
//!     phalanx_config::read(&mut garden, text, "garden.toml", "".as_ref(), &mut origins).unwrap_err();
//! assert_eq!(
//!     errors[0].to_string(),
//!     "garden.toml:2:1: gaet: unknown key; did you mean `gate`?"
//! );
//!
//! garden.trees = 0;
//! let errors = phalanx_config::check(&garden);
//! assert_eq!(errors[0].to_string(), "trees: found 0, expected at least 1");
//! ```

#![forbid(unsafe_code)]

mod declaration;
mod difference;
mod error;
mod pass;
mod reader;
mod reference;
mod settings;
mod units;
mod value;

use std::collections::HashMap;
use std::path::Path;

use toml::de::DeTable;

use crate::error::position;
use crate::reader::{Reader, Source};

pub use declaration::{Declaration, variable};
pub use difference::differences;
pub use error::{ConfigError, Origins, did_you_mean, nearest};
pub use pass::{Keys, Pass, Short, changes, declarations, table};
pub use reference::reference;
/// A table to write.
pub use toml::Table;
/// A value to write.
pub use toml::Value as Written;
/// A parsed value.
pub use toml::de::DeValue as Given;
pub use units::{duration, size};
pub use value::{Size, Value, integer};

/// Reads `text` over the existing values; keys that it does not contain keep their values. `name` is the
/// source in error messages; relative paths are resolved against `base`. The position of each key is recorded
/// in `origins`.
///
/// # Errors
/// All errors in the text. `keys` is then unusable. [`check`] finds missing and forbidden values.
pub fn read(
    keys: &mut impl Keys,
    text: &str,
    name: &str,
    base: &Path,
    origins: &mut Origins,
) -> Result<(), Vec<ConfigError>> {
    read_from(keys, text, Source::Text { name, text }, (base, false), origins)
}

/// Like [`read`], for a file that another one includes: its lists of tables are appended to those of earlier files, and
/// a key that an earlier file has set is an error.
///
/// # Errors
/// Like [`read`].
pub fn read_included(
    keys: &mut impl Keys,
    text: &str,
    name: &str,
    base: &Path,
    origins: &mut Origins,
) -> Result<(), Vec<ConfigError>> {
    read_from(keys, text, Source::Text { name, text }, (base, true), origins)
}

/// Like [`read`], with the values of flags and environment variables: `table` contains texts and lists of texts, and
/// `places` the flag or the variable of each key.
///
/// # Errors
/// Like [`read`].
pub fn read_given(
    keys: &mut impl Keys,
    table: &Table,
    places: &HashMap<String, String>,
    origins: &mut Origins,
) -> Result<(), Vec<ConfigError>> {
    read_from(keys, &table.to_string(), Source::Given(places), (Path::new(""), false), origins)
}

fn read_from(
    keys: &mut impl Keys,
    text: &str,
    source: Source<'_>,
    (base, included): (&Path, bool),
    origins: &mut Origins,
) -> Result<(), Vec<ConfigError>> {
    let (table, syntax_errors) = DeTable::parse_recoverable(text);
    let mut errors: Vec<ConfigError> = syntax_errors
        .iter()
        .map(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let place = match &source {
                Source::Text { name, .. } => position(name, text, at),
                Source::Given(_) => String::new(),
            };
            // Add the name of a duplicate key, which the message does not contain.
            let key = error.span().filter(|_| error.message() == "duplicate key");
            let key = key.and_then(|span| text.get(span)).unwrap_or_default();
            ConfigError::new(&place, key, &error.message().trim().replace('\n', "; "))
        })
        .collect();
    if errors.is_empty() {
        let mut reader = Reader { source, base, included, origins, errors: &mut errors };
        Pass::read(&mut reader, "", (table.get_ref(), 0), |pass| keys.keys(pass));
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Errors for missing mandatory values, and for values outside of their ranges.
pub fn check<K: Keys + Clone>(keys: &K) -> Vec<ConfigError> {
    let (mut keys, mut errors) = (keys.clone(), Vec::new());
    Pass::check(String::new(), &mut errors, |pass| keys.keys(pass));
    errors
}

/// Implements [`Value`](crate::Value) for types that are one of a few words: `FORM as TYPE: VARIANT = "word",
/// …;`. The form is the type itself, or a marker type.
#[macro_export]
macro_rules! choices {
    ($($form:ty as $type:ty: $($variant:path = $text:literal),* $(,)?;)*) => {$(
        impl $crate::Value<$type> for $form {
            fn kind() -> ::std::string::String {
                [$($text),*].join("|")
            }

            fn expected() -> ::std::string::String {
                [$(concat!("\"", $text, "\"")),*].join(" or ")
            }

            fn read(
                value: &$crate::Given<'_>,
            ) -> ::std::result::Result<$type, ::std::string::String> {
                match value.as_str() {
                    $(Some($text) => Ok($variant),)*
                    other => ::std::result::Result::Err($crate::did_you_mean(other, [$($text),*])),
                }
            }

            fn print(value: &$type) -> $crate::Written {
                match value { $($variant => $text,)* }.into()
            }
        }
    )*};
}
