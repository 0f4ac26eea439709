//! What is wrong with a configuration, and where it was said.

use std::collections::HashMap;
use std::fmt;

/// Something that is wrong with a configuration. Its text is one line that names the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file and the place in it, as `web.toml:3:1`; the key alone where it was said elsewhere.
    place: String,
    key: String,
    what: String,
}

impl ConfigError {
    /// About the value of `key`, which `place` has said.
    pub fn new(place: &str, key: &str, what: &str) -> Self {
        Self { place: place.into(), key: key.into(), what: what.into() }
    }

    /// About the value of `key`, wherever it was said.
    pub fn of(key: impl Into<String>, what: impl Into<String>) -> Self {
        Self { place: String::new(), key: key.into(), what: what.into() }
    }

    /// About the place `at` in a text.
    pub(crate) fn at(name: &str, text: &str, at: usize, key: &str, what: String) -> Self {
        Self { place: place(name, text, at), key: key.into(), what }
    }

    /// The key that it is about, as `host[0].root`; empty where there is none.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The same, with the place where its key was said, or else the table it is missing from.
    #[must_use]
    pub fn located(mut self, origins: &Origins) -> Self {
        // The one of a list that was said as `[host]` has no number.
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

/// Where each key of a configuration was said, for messages.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    places: HashMap<String, String>,
}

impl Origins {
    pub(crate) fn note(&mut self, key: &str, name: &str, text: &str, at: usize) {
        self.places.insert(key.to_owned(), place(name, text, at));
    }

    /// Notes that `key` was said by `place`: a flag or a variable.
    pub fn said(&mut self, key: &str, place: &str) {
        self.places.insert(key.to_owned(), place.to_owned());
    }
}

/// File, line and column; both count from one, and columns count characters.
fn place(name: &str, text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before[before.rfind('\n').map_or(0, |at| at + 1)..].chars().count() + 1;
    format!("{name}:{line}:{column}")
}
