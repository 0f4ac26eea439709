//! Configuration errors and the positions of keys.

use std::collections::HashMap;
use std::fmt;

/// An error in a configuration. Its text is one line that names the position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Position such as `web.toml:3:1`; empty if only the key is known.
    place: String,
    key: String,
    message: String,
    /// Keys of the table `key` that would correct the error.
    keys: Vec<String>,
}

impl ConfigError {
    /// An error about the value of `key`, set at `place`.
    pub fn new(place: &str, key: &str, message: &str) -> Self {
        Self { place: place.into(), ..Self::for_key(key, message) }
    }

    /// An error about the value of `key`, whose position is not known yet.
    pub fn for_key(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: String::new(), key: key.into(), message: message.into(), keys: Vec::new() }
    }

    /// Adds the keys of the table [`key`](Self::key) that would correct the error.
    #[must_use]
    pub fn with_keys(mut self, keys: impl IntoIterator<Item: Into<String>>) -> Self {
        self.keys = keys.into_iter().map(Into::into).collect();
        self
    }

    /// Adds the flags of those keys if a flag or an environment variable has caused the error. `flag` returns the flag
    /// of a key.
    #[must_use]
    pub fn with_flags(mut self, flag: impl Fn(&str) -> Option<String>) -> Self {
        // A position in a text contains line and column, and thus a colon.
        let is_external = !self.place.is_empty() && !self.place.contains(':');
        let flags = self.keys.iter().filter_map(|key| flag(&format!("{}.{key}", self.key)));
        let flags: Vec<_> = flags.map(|flag| format!("--{flag}")).collect();
        if is_external && !flags.is_empty() {
            self.message = format!("{}; use {}", self.message, flags.join(" or "));
        }
        self
    }

    /// The key, such as `host[0].root`; empty if there is none.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Adds the position of the key, or else of the table that should contain it.
    #[must_use]
    pub fn located(mut self, origins: &Origins) -> Self {
        // The key of a list element that was given as `[host]` has no index.
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
        let Self { place, key, message, .. } = self;
        for part in [place, key] {
            if !part.is_empty() {
                write!(f, "{part}: ")?;
            }
        }
        f.write_str(message)
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

/// The name in `known` that is probably meant by `name`: a similar one, or one that it contains. Names of less than
/// three letters are ignored, because `no` is similar to `on`.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |known: &'a str| match name.contains(known) {
        true => (1, known),
        false => (strsim::damerau_levenshtein(known, name), known),
    };
    let is_near = |(distance, known): &(usize, &str)| *distance <= (known.len() / 2).min(3);
    let known = known.into_iter().filter(|known| known.len() > 2);
    known.map(distance).filter(is_near).min().map(|(_, known)| known)
}

/// The reason for rejecting a word, if it is similar to a `known` one; otherwise empty.
pub fn did_you_mean<'a>(word: Option<&str>, known: impl IntoIterator<Item = &'a str>) -> String {
    let suggestion = word.and_then(|word| nearest(word, known));
    suggestion.map_or_else(String::new, |suggestion| format!("did you mean {suggestion:?}?"))
}

/// File, line and column. Both count from one, and columns count characters.
pub(crate) fn position(name: &str, text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before[before.rfind('\n').map_or(0, |at| at + 1)..].chars().count() + 1;
    format!("{name}:{line}:{column}")
}
