//! Configuration as text: TOML that is read over what is there already, and written again.
//!
//! Each key is declared once, in `keys.rs`; reading, writing and the list of all keys are three
//! passes over the declarations (`pass.rs`). A mistake does not end the reading: an operator is told
//! of all of them, each with its line and column.

mod keys;
mod mistake;
mod pass;
mod value;

use std::path::Path;

use toml::de::DeTable;

pub use mistake::{Mistake, Origins};

use crate::config::Config;
use crate::config::file::keys::Keys;
use crate::config::file::pass::{Pass, Reader};

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
    /// let mistakes = config
    ///     .read(text, "web.toml", "/srv".as_ref(), &mut Origins::default())
    ///     .unwrap_err();
    /// assert_eq!(
    ///     mistakes[0].to_string(),
    ///     "web.toml:3:1: host.listin: there is no such key; is it `listing`?"
    /// );
    /// ```
    pub fn read(
        &mut self,
        text: &str,
        name: &str,
        base: &Path,
        origins: &mut Origins,
    ) -> Result<(), Vec<Mistake>> {
        let (table, errors) = DeTable::parse_recoverable(text);
        let mut mistakes: Vec<Mistake> = errors
            .iter()
            .map(|error| {
                let at = error.span().map_or(0, |span| span.start);
                Mistake::at(name, text, at, "", error.message().trim().replace('\n', "; "))
            })
            .collect();
        if mistakes.is_empty() {
            let reader = Reader::new(text, name, base, origins, &mut mistakes);
            Pass::read(reader, "", table.get_ref(), |pass| self.keys(pass));
        }
        if mistakes.is_empty() { Ok(()) } else { Err(mistakes) }
    }

    /// The whole configuration as TOML, which [`Config::read`] reads to the same again.
    pub fn to_toml(&self) -> String {
        toml::to_string(&self.to_table()).unwrap_or_default()
    }

    /// The same, as a table.
    pub(crate) fn to_table(&self) -> toml::Table {
        Pass::print(|pass| self.clone().keys(pass))
    }

    /// The names of all keys, as `host.redirect.from`, in the order in which they are declared.
    pub fn keys() -> Vec<String> {
        Pass::names(|pass| Config::new().keys(pass))
    }
}
