//! A configuration as text: TOML that is read over what is there already, and written again.

use std::path::Path;

use phalanx_config::{ConfigError, Origins, Table, names, read, table};

use crate::config::Config;

impl Config {
    /// Reads `text`, which is TOML, over this configuration: what it does not say stays. `name` is where it comes from, for
    /// messages; relative paths in it begin at `base`. Where each key was said is noted in `origins`.
    ///
    /// # Errors
    /// All that is wrong with the text. The configuration is of no use then. What is wrong with its sense only is
    /// found by [`Config::check`].
    ///
    /// ```
    /// use phalanx_broker::{Config, Origins};
    ///
    /// let mut config = Config::new();
    /// let text = "listen = ['127.0.0.1:1883', 'ws://127.0.0.1:8083']\nmax-queued-messages = 'many'";
    /// let errors = config
    ///     .read(text, "broker.toml", "".as_ref(), &mut Origins::default())
    ///     .unwrap_err();
    /// assert!(errors[0].to_string().starts_with("broker.toml:2:13: max-queued-messages: found 'many'"));
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

    /// The names of all keys, as `tls.certificate`, in the order in which they are declared.
    pub fn keys() -> Vec<String> {
        names(&mut Config::new())
    }
}
