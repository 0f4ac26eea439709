//! Configuration errors and the positions of keys.

use std::collections::HashMap;
use std::fmt;

/// An error in a configuration. Its text is one line that names the position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Position such as `web.toml:3:1`; empty if only the key is known.
    place: String,
    key: String,
    what: String,
}

impl ConfigError {
    /// An error about the value of `key`, set at `place`.
    pub fn new(place: &str, key: &str, what: &str) -> Self {
        Self { place: place.into(), key: key.into(), what: what.into() }
    }

    /// An error about the value of `key`, whose position is not known yet.
    pub fn of(key: impl Into<String>, what: impl Into<String>) -> Self {
        Self { place: String::new(), key: key.into(), what: what.into() }
    }

    /// The key, such as `host[0].root`; empty if there is none.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Adds the position of the key, or else of the table that should contain it.
    #[must_use]
    pub fn located(mut self, origins: &Origins) -> Self {
        // The element of a list that was given as `[host]` has no number.
        if let Some((list, rest)) = self.key.split_once("[0]")
            && !list.contains('[')
            && !origins.places.contains_key(&format!("{list}[0]"))
        {
            self.key = format!("{list}{rest}");
        }
        let mut key = &self.key[..];
        while self.place.is_empty() {
            if let Some(place) = origins.places.get(key) {
                self.place.clone_from(place);
            }
            match key.rfind(['.', '[']) {
                Some(at) => key = &key[..at],
                None => break,
            }
        }
        self
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, key, what } = self;
        for part in [place, key] {
            if !part.is_empty() {
                write!(f, "{part}: ")?;
            }
        }
        f.write_str(what)
    }
}

impl std::error::Error for ConfigError {}

/// Positions of the keys of a configuration, for messages.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    places: HashMap<String, String>,
    /// Patterns of included files that are not read yet, with the position of their `include`.
    includes: Vec<(String, String)>,
}

impl Origins {
    pub(crate) fn record(&mut self, key: &str, place: String) {
        self.places.insert(key.to_owned(), place);
    }

    /// The position of a key.
    pub(crate) fn place(&self, key: &str) -> Option<&str> {
        self.places.get(key).map(String::as_str)
    }

    /// Records the patterns of an `include`. Each file may have one.
    pub(crate) fn include(&mut self, patterns: &[String]) {
        let place = self.places.remove("include").unwrap_or_default();
        self.includes.extend(patterns.iter().map(|pattern| (pattern.clone(), place.clone())));
    }

    /// Takes the patterns of the files to include, each with the position of the `include`.
    pub fn take_includes(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.includes)
    }
}

/// File, line and column. Both count from one, and columns count characters.
pub(crate) fn position(name: &str, text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before[before.rfind('\n').map_or(0, |at| at + 1)..].chars().count() + 1;
    format!("{name}:{line}:{column}")
}
