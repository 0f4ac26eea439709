//! Reading a table over existing values.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::declaration::Declaration;
use crate::error::{ConfigError, Origins, nearest, position};
use crate::pass::Pass;
use crate::value::Value;

/// The origin of a table.
pub(crate) enum Source<'r> {
    /// A text in TOML and its name.
    Text { name: &'r str, text: &'r str },
    /// Flags and variables by key. Their values are texts.
    Given(&'r HashMap<String, String>),
}

/// State of reading a source.
pub(crate) struct Reader<'r> {
    pub(crate) source: Source<'r>,
    pub(crate) base: &'r Path,
    /// Whether this file is included by another one, so that a key that an earlier file has set is an error.
    pub(crate) included: bool,
    pub(crate) origins: &'r mut Origins,
    pub(crate) errors: &'r mut Vec<ConfigError>,
}

impl Reader<'_> {
    fn place(&self, at: usize, key: &str) -> String {
        match &self.source {
            Source::Text { name, text } => position(name, text, at),
            Source::Given(positions) => {
                let table = format!("{key}.");
                let inner = || positions.iter().find(|(other, _)| other.starts_with(&table));
                let place = positions.get(key).or_else(|| inner().map(|(_, place)| place));
                place.cloned().unwrap_or_default()
            }
        }
    }

    fn error(&mut self, at: usize, key: &str, message: &str) {
        self.errors.push(ConfigError::new(&self.place(at, key), key, message));
    }

    fn expected(&mut self, value: &Spanned<DeValue<'_>>, key: &str, expected: &str, reason: &str) {
        let error = self.unexpected(value, key, expected, reason);
        self.errors.push(error);
    }

    fn unexpected(
        &self,
        value: &Spanned<DeValue<'_>>,
        key: &str,
        expected: &str,
        reason: &str,
    ) -> ConfigError {
        let span = value.span();
        let found = match &self.source {
            Source::Text { text, .. } => text.get(span.clone()).unwrap_or_default().to_owned(),
            Source::Given(_) => words(value.get_ref()),
        };
        let (found, reason) = (without_login(&found), without_login(reason));
        let line = found.lines().next().unwrap_or_default();
        let mut found: String = line.chars().take(40).collect();
        if found.len() < line.len() {
            found.push('…');
        }
        let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
        let message = format!("found {found}{reason}, expected {expected}");
        ConfigError::new(&self.place(span.start, key), key, &message)
    }
}

/// A text without a possible user name and password, as in `nats://user:password@host`, and without everything after
/// them, because errors are stored in logs.
fn without_login(text: &str) -> Cow<'_, str> {
    let Some(before) = text.rfind('@').map(|end| &text[..end]) else { return text.into() };
    match (before.find("://"), before.contains(':')) {
        (Some(at), _) => format!("{}…", &text[..at + 3]).into(),
        (None, true) => "…".into(),
        (None, false) => text.into(),
    }
}

/// The texts of a flag, as given.
fn words(value: &DeValue<'_>) -> String {
    match value {
        DeValue::Array(items) => {
            items.iter().map(|item| words(item.get_ref())).collect::<Vec<_>>().join(",")
        }
        value => format!("{:?}", value.as_str().unwrap_or_default()),
    }
}

/// State of reading a table.
pub(crate) struct TableReader<'a, 'r> {
    pub(crate) reader: &'a mut Reader<'r>,
    prefix: String,
    table: &'a DeTable<'a>,
    /// Byte offset of the table.
    at: usize,
    known: Vec<&'static str>,
}

impl<'a, 'r> TableReader<'a, 'r> {
    pub(crate) fn new(
        reader: &'a mut Reader<'r>,
        prefix: &str,
        table: &'a DeTable<'a>,
        at: usize,
    ) -> Self {
        Self { reader, prefix: prefix.to_owned(), table, at, known: Vec::new() }
    }

    fn path(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn record(&mut self, key: &str, at: usize) {
        let place = self.reader.place(at, key);
        if !place.is_empty() {
            self.reader.origins.record(key, place);
        }
    }

    /// Returns the value of a key and marks the key as known.
    fn take(&mut self, name: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.known(name);
        let found = self.table.get(name)?;
        let key = self.path(name);
        self.record(&key, found.span().start);
        Some(found)
    }

    pub(crate) fn known(&mut self, name: &'static str) {
        self.known.push(name);
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.table.contains_key(name)
    }

    pub(crate) fn is_table(&self, name: &str) -> bool {
        self.table.get(name).is_some_and(|value| value.get_ref().is_table())
    }

    /// Reports a key that another file has set.
    pub(crate) fn check_unset(&mut self, name: &str) {
        let key = self.path(name);
        if self.reader.included
            && let Some(at) = self.table.get(name).map(|found| found.span().start)
            && let Some(place) = self.reader.origins.place(&key).map(str::to_owned)
        {
            self.reader.error(at, &key, &format!("is already set at {place}"));
        }
    }

    /// Reads the patterns of included files.
    pub(crate) fn include(&mut self) {
        let mut patterns = Vec::<String>::new();
        if self.key::<Vec<String>, _>("include", &mut patterns, "") {
            self.reader.origins.include(&patterns);
        }
    }

    /// Reads a value in these bounds, if any. Returns whether the key is present.
    pub(crate) fn key<F: Value<T>, T>(
        &mut self,
        name: &'static str,
        value: &mut T,
        bounds: &str,
    ) -> bool {
        self.check_unset(name);
        let Some(found) = self.take(name) else { return false };
        let key = self.path(name);
        let read = match (&self.reader.source, found.get_ref()) {
            (Source::Given(_), DeValue::String(text)) => read_word::<F, T>(text),
            (_, found) => F::read(found),
        };
        match read {
            Ok(read) => {
                *value = read;
                F::resolve(value, self.reader.base);
            }
            Err(reason) => {
                let expected = format!("{}{bounds}", F::expected());
                self.reader.expected(found, &key, &expected, &reason);
            }
        }
        true
    }

    /// Takes a boolean, which may be given instead of an optional table.
    pub(crate) fn boolean(&mut self, name: &'static str) -> Option<bool> {
        let on = match self.table.get(name)?.get_ref() {
            DeValue::String(text) if matches!(self.reader.source, Source::Given(_)) => {
                text.parse().ok()?
            }
            value => value.as_bool()?,
        };
        self.check_unset(name);
        self.take(name);
        Some(on)
    }

    /// Like [`table`](Self::table), for a table that is absent if the value is `false`. Reports a value that is neither
    /// a table nor a boolean.
    pub(crate) fn optional(
        &mut self,
        name: &'static str,
        declarations: impl FnOnce() -> Vec<Declaration>,
        keys: impl FnOnce(&mut Pass<'_, '_>),
    ) {
        if self.is_table(name) {
            return self.table(name, keys);
        }
        let Some(found) = self.take(name) else { return };
        let expected = match self.reader.source {
            Source::Given(_) => "true or false",
            Source::Text { .. } => "true, false or a table",
        };
        let error = self.reader.unexpected(found, &self.path(name), expected, "");
        self.reader
            .errors
            .push(error.with_keys(declarations().into_iter().map(|declaration| declaration.key)));
    }

    pub(crate) fn table(&mut self, name: &'static str, keys: impl FnOnce(&mut Pass<'_, '_>)) {
        let key = self.path(name);
        self.table_as(name, &key, keys);
    }

    /// Like [`table`](Self::table), for the element `at` of a list. If an earlier file contains that element, its keys
    /// are recorded below the path of that element.
    pub(crate) fn table_of_list(
        &mut self,
        name: &'static str,
        at: usize,
        keys: impl FnOnce(&mut Pass<'_, '_>),
    ) {
        let element = format!("{}[{at}]", self.path(name));
        if self.reader.included && self.reader.origins.place(&element).is_some() {
            self.table_as(name, &element, keys);
        } else {
            self.table(name, keys);
        }
    }

    fn table_as(&mut self, name: &'static str, key: &str, keys: impl FnOnce(&mut Pass<'_, '_>)) {
        let Some(found) = self.take(name) else { return };
        match found.get_ref() {
            DeValue::Table(table) => {
                let table = (table, found.span().start);
                Pass::read(self.reader, &format!("{key}."), table, keys);
            }
            _ => self.reader.expected(found, key, "a table", ""),
        }
    }

    /// The number of `existing` elements of a list that stay before those of this table.
    pub(crate) fn kept_elements(&self, name: &str, existing: usize) -> usize {
        let extends = self.reader.included && self.reader.origins.place(&self.path(name)).is_some();
        if extends { existing } else { 0 }
    }

    /// Whether a list is given as texts.
    pub(crate) fn has_texts(&self, name: &str) -> bool {
        let is_text = |value: &DeValue<'_>| value.is_str();
        match self.table.get(name).map(Spanned::get_ref) {
            Some(DeValue::Array(items)) => items.iter().any(|item| is_text(item.get_ref())),
            found => found.is_some_and(is_text),
        }
    }

    /// Passes each text of a list to `add`.
    pub(crate) fn texts(
        &mut self,
        name: &'static str,
        expected: &str,
        mut add: impl FnMut(&str) -> Result<(), String>,
    ) {
        let Some(found) = self.take(name) else { return };
        let key = self.path(name);
        let items = match found.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            _ => vec![found],
        };
        for item in items {
            let result = item.get_ref().as_str().ok_or_else(String::new).and_then(&mut add);
            if let Err(reason) = result {
                self.reader.expected(item, &key, expected, &reason);
            }
        }
    }

    /// The tables of a list, with the prefixes of their keys, which follow the `kept_elements`.
    pub(crate) fn tables(
        &mut self,
        name: &'static str,
        kept_elements: usize,
    ) -> Option<Vec<(String, &'a Spanned<DeValue<'a>>)>> {
        let found = self.take(name)?;
        let key = self.path(name);
        let DeValue::Array(array) = found.get_ref() else {
            self.reader.expected(found, &key, "a list of tables", "");
            return None;
        };
        let mut tables = Vec::new();
        for (n, item) in array.iter().enumerate() {
            let key = format!("{key}[{}]", kept_elements + n);
            if item.get_ref().is_table() {
                self.record(&key, item.span().start);
                tables.push((format!("{key}."), item));
            } else {
                self.reader.expected(item, &key, "a table", "");
            }
        }
        Some(tables)
    }

    /// Reports that a key cannot be set.
    pub(crate) fn reject(&mut self, name: &'static str, reason: &str) {
        let at = self.take(name).map_or(self.at, |found| found.span().start);
        let key = self.path(name);
        self.reader.error(at, &key, reason);
    }

    pub(crate) fn report_unknown(self) {
        let Self { reader, prefix, table, known, .. } = self;
        for key in table.keys().filter(|key| !known.contains(&&**key.get_ref())) {
            let name = key.get_ref();
            let hint = match nearest(name, known.iter().copied()) {
                Some(known) => format!("did you mean `{known}`?"),
                None => format!("expected one of {}", known.join(", ")),
            };
            let message = format!("unknown key; {hint}");
            reader.error(key.span().start, &format!("{prefix}{name}"), &message);
        }
    }
}

/// Reads the text of a flag or a variable: `true` and `false` as such if the key accepts them, otherwise a text,
/// otherwise a number.
fn read_word<F: Value<T>, T>(text: &str) -> Result<T, String> {
    let parsed = DeValue::parse(text).map(Spanned::into_inner);
    if let Ok(on @ DeValue::Boolean(_)) = &parsed
        && let Ok(read) = F::read(on)
    {
        return Ok(read);
    }
    F::read(&DeValue::String(text.into())).or_else(|reason| match &parsed {
        Ok(number @ (DeValue::Integer(_) | DeValue::Float(_))) => F::read(number),
        _ => Err(reason),
    })
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::path::Path;

    use super::*;
    use crate::pass::Keys;
    use crate::{Given, Written, read};

    /// A value that appears in its error messages.
    #[derive(Debug, Default, PartialEq)]
    struct Echo;

    impl Value for Echo {
        fn kind() -> String {
            "text".into()
        }

        fn expected() -> String {
            "nothing".into()
        }

        fn read(value: &Given<'_>) -> Result<Self, String> {
            Err(format!("not {:?}", value.as_str().unwrap_or_default()))
        }

        fn print(_: &Self) -> Written {
            "".into()
        }
    }

    #[derive(Default)]
    struct TestConfig {
        listen: Vec<SocketAddr>,
        one: Echo,
    }

    impl Keys for TestConfig {
        fn keys(&mut self, pass: &mut Pass<'_, '_>) {
            pass.key("listen", &mut self.listen, "");
            pass.key("one", &mut self.one, "");
        }
    }

    #[test]
    fn errors_contain_no_passwords() {
        let error = |text: &str| {
            let errors =
                read(&mut TestConfig::default(), text, "a", Path::new(""), &mut Origins::default());
            let errors = errors.unwrap_err();
            assert_eq!(errors.len(), 1, "{text}");
            errors[0].to_string()
        };
        for value in [
            "nats://user:hidden@host",
            "user:hidden@host",
            "nats://hidden@host",
            "nats://user:hidden/@host",
        ] {
            for text in [
                format!("listen = '{value}'"),
                format!("listen = ['127.0.0.1:80',\n '{value}']"),
                format!("one = '{value}'"),
            ] {
                let error = error(&text);
                assert!(!error.contains("hidden") && error.contains("found "), "{error}");
            }
        }
        // An `@` that is not part of a URL.
        assert!(error("listen = 'eve@example.org'").contains("found 'eve@example.org'"));
        assert!(error("listen = 'mqtt://a'").contains("found 'mqtt://a'"));
    }
}
