//! Reading and writing configurations as TOML.
//!
//! Each key is declared once, in `keys.rs`; reading, writing and listing the keys are three passes over the
//! declarations ([`phalanx_config`]). `values.rs` contains the value types that only the web server has.

mod keys;
mod values;

use std::path::Path;

use phalanx_config::{ConfigError, Origins, Table, names, read, table};

use crate::config::Config;

impl Config {
    /// Reads `text` over this configuration; keys that it does not contain keep their values. `name` is the
    /// source in error messages; relative paths are resolved against `base`. The position of each key is
    /// recorded in `origins`.
    ///
    /// A table `[host]` applies to the default host; tables `[[host]]` replace all hosts.
    ///
    /// # Errors
    /// All syntax errors, unknown keys and invalid values; the configuration is then unusable. Semantic
    /// errors are found by [`Config::check`].
    ///
    /// ```
    /// use phalanx_web::{Config, Origins};
    ///
    /// let mut config = Config::new();
    /// let text = "[host]\nroot = 'www'\nlistin = true";
    /// let errors = config
    ///     .read(text, "web.toml", "/srv".as_ref(), &mut Origins::default())
    ///     .unwrap_err();
    /// assert_eq!(
    ///     errors[0].to_string(),
    ///     "web.toml:3:1: host.listin: unknown key; did you mean `listing`?"
    /// );
    /// ```
    pub fn read(
        &mut self,
        text: &str,
        name: &str,
        base: &Path,
        origins: &mut Origins,
    ) -> Result<(), Vec<ConfigError>> {
        read(self, text, name, base, origins)
    }

    /// The complete configuration as TOML. [`Config::read`] restores it.
    pub fn to_toml(&self) -> String {
        self.to_table().to_string()
    }

    /// The complete configuration as a table.
    pub(crate) fn to_table(&self) -> Table {
        table(&mut self.clone())
    }

    /// The names of all keys, such as `host.redirect.from`, in the order of their declarations.
    pub fn keys() -> Vec<String> {
        names(&mut Config::new())
    }
}
