//! Configuration as text: TOML that is read over what is there already, and written again.
//!
//! Each key is declared once, in `keys.rs`; reading, writing and the list of all keys are three
//! passes over the declarations ([`phalanx_config`]). `values.rs` has what only a web server's keys are.

mod keys;
mod values;

use std::path::Path;

use phalanx_config::{ConfigError, Origins, Table, names, read, table};

use crate::config::Config;

impl Config {
    /// Reads `text` over this configuration: what it does not say stays. `name` is where it comes
    /// from, for messages; relative paths in it begin at `base`. Where each key was said is noted
    /// in `origins`.
    ///
    /// A table `[host]` is about the default host; tables `[[host]]` are all the hosts there are.
    ///
    /// # Errors
    /// All that is wrong with the text. The configuration is of no use then. What is wrong with its
    /// sense only is found by [`Config::check`].
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
    ///     "web.toml:3:1: host.listin: there is no such key; is it `listing`?"
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

    /// The whole configuration as TOML, which [`Config::read`] reads to the same again.
    pub fn to_toml(&self) -> String {
        self.to_table().to_string()
    }

    /// The same, as a table.
    pub(crate) fn to_table(&self) -> Table {
        table(&mut self.clone())
    }

    /// The names of all keys, as `host.redirect.from`, in the order in which they are declared.
    pub fn keys() -> Vec<String> {
        names(&mut Config::new())
    }
}
