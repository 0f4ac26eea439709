//! Configuration files: reads TOML over existing values, and writes it.
//!
//! Each key is declared once, in an implementation of [`Keys`]; reading, writing and listing the keys are
//! three [passes](Pass) over the declarations. Reading does not stop at the first error: the operator gets
//! all of them, each with its line and column. This crate opens no files.
//!
//! | file | idea |
//! |---|---|
//! | `pass.rs` | a pass over declarations |
//! | `value.rs` | the TOML forms of types, and messages for invalid values |
//! | `error.rs` | errors and the positions of keys |
//! | `amount.rs` | amounts of memory |
//! | `difference.rs` | comparison of two configurations |
//!
//! ```
//! use phalanx_config::{Keys, Origins, Pass};
//!
//! #[derive(Default)]
//! struct Garden {
//!     trees: u16,
//!     gate: Option<String>,
//! }
//!
//! impl Keys for Garden {
//!     fn keys(&mut self, pass: &mut Pass<'_, '_>) {
//!         pass.key("trees", &mut self.trees);
//!         pass.key("gate", &mut self.gate);
//!     }
//! }
//!
//! let mut garden = Garden::default();
//! let mut origins = Origins::default();
//! phalanx_config::read(&mut garden, "trees = 2", "garden.toml", "".as_ref(), &mut origins).unwrap();
//! assert_eq!(phalanx_config::table(&mut garden).to_string(), "gate = false\ntrees = 2\n");
//!
//! let text = "trees = 3\ngaet = 'east'";
//! let errors =
//!     phalanx_config::read(&mut garden, text, "garden.toml", "".as_ref(), &mut origins).unwrap_err();
//! assert_eq!(
//!     errors[0].to_string(),
//!     "garden.toml:2:1: gaet: unknown key; did you mean `gate`?"
//! );
//! ```

#![forbid(unsafe_code)]

mod amount;
mod difference;
mod error;
mod pass;
mod value;

use std::path::Path;

use toml::de::DeTable;

pub use amount::amount;
pub use difference::differences;
pub use error::{ConfigError, Origins};
pub use pass::Pass;
/// A table to write.
pub use toml::Table;
/// A value to write.
pub use toml::Value as Written;
/// A parsed value.
pub use toml::de::DeValue as Given;
pub use value::{PathValue, Value, integer};

/// A table of keys.
pub trait Keys {
    /// Declares the keys to a pass.
    fn keys(&mut self, pass: &mut Pass<'_, '_>);
}

/// Reads `text` over the existing values; keys that it does not contain keep their values. `name` is the
/// source in error messages; relative paths are resolved against `base`. The position of each key is recorded
/// in `origins`.
///
/// # Errors
/// All errors in the text. The values that were read over are then unusable.
pub fn read(
    keys: &mut impl Keys,
    text: &str,
    name: &str,
    base: &Path,
    origins: &mut Origins,
) -> Result<(), Vec<ConfigError>> {
    let (table, syntax_errors) = DeTable::parse_recoverable(text);
    let mut errors: Vec<ConfigError> = syntax_errors
        .iter()
        .map(|error| {
            let at = error.span().map_or(0, |span| span.start);
            ConfigError::at(name, text, at, "", error.message().trim().replace('\n', "; "))
        })
        .collect();
    if errors.is_empty() {
        let reader = pass::Reader::new(text, name, base, origins, &mut errors);
        Pass::read(reader, table.get_ref(), |pass| keys.keys(pass));
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// All keys with their values, which [`read`] restores.
pub fn table(keys: &mut impl Keys) -> Table {
    Pass::print(|pass| keys.keys(pass))
}

/// The names of all keys, such as `host.redirect.from`, in the order of their declarations.
pub fn names(keys: &mut impl Keys) -> Vec<String> {
    Pass::names(|pass| keys.keys(pass))
}
