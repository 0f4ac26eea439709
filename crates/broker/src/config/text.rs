//! A configuration as text: read from TOML, and written as TOML.

use std::path::Path;

use phalanx_config::{ConfigError, Origins, Table, names, read, table};

use crate::config::Config;

impl Config {
    /// Reads TOML `text` into this configuration; keys not in it keep their values. `name` is the source for
    /// error messages, relative paths are relative to `base`, and `origins` records where each key was set.
    ///
    /// # Errors
    /// All syntax and type errors of the text; the configuration is then unusable. [`Config::check`] finds
    /// semantic errors.
    ///
    /// ```
    /// use phalanx_broker::{Config, Origins};
    ///
    /// let mut config = Config::new();
    /// let text = "listen = ['127.0.0.1:1883', 'ws://127.0.0.1:8083']\nmax-queued-messages = 'many'";
    /// let errors = config
    ///     .read(text, "broker.toml", "".as_ref(), &mut Origins::default())
    ///     .unwrap_err();
    /// assert!(errors[0].to_string().starts_with("broker.toml:2:23: max-queued-messages: found 'many'"));
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

    /// The complete configuration as TOML; [`Config::read`] restores it.
    pub fn to_toml(&self) -> String {
        self.to_table().to_string()
    }

    /// The complete configuration as a TOML table.
    pub(crate) fn to_table(&self) -> Table {
        table(&mut self.clone())
    }

    /// The names of all keys, such as `tls.certificate`, in order of declaration.
    pub fn keys() -> Vec<String> {
        names(&mut Config::new())
    }
}
