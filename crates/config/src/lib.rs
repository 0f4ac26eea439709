//! Configuration as text: TOML that is read over what is there already, and written again.
//!
//! Each key is declared once, in an implementation of [`Keys`]; reading, writing and the list of all keys are
//! three [passes](Pass) over the declarations. A mistake does not end the reading: an operator is told of all of
//! them, each with its line and column. Nothing here opens a file.
//!
//! | file | idea |
//! |---|---|
//! | `pass.rs` | a pass over declarations |
//! | `value.rs` | how types are written, and what is said where they are written otherwise |
//! | `error.rs` | what is wrong, and where it was said |
//! | `amount.rs` | amounts of memory as people write them |
//! | `difference.rs` | which keys of two configurations differ |
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
//!     "garden.toml:2:1: gaet: there is no such key; is it `gate`?"
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
/// A table as it is written.
pub use toml::Table;
/// A value as it is written.
pub use toml::Value as Written;
/// A value as it is read.
pub use toml::de::DeValue as Given;
pub use value::{Place, Value, integer};

/// A table of keys.
pub trait Keys {
    /// Walks the keys with a pass.
    fn keys(&mut self, pass: &mut Pass<'_, '_>);
}

/// Reads `text` over what is there: what it does not say stays. `name` is where it comes from, for messages;
/// relative paths in it begin at `base`. Where each key was said is noted in `origins`.
///
/// # Errors
/// All that is wrong with the text. What was read over is of no use then.
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

/// All keys with their values, as [`read`] reads them to the same again.
pub fn table(keys: &mut impl Keys) -> Table {
    Pass::print(|pass| keys.keys(pass))
}

/// The names of all keys, as `host.redirect.from`, in the order in which they are declared.
pub fn names(keys: &mut impl Keys) -> Vec<String> {
    Pass::names(|pass| keys.keys(pass))
}
