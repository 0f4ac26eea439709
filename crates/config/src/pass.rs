//! Passes over declarations of keys: reading, writing and listing them.

use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::Keys;
use crate::error::{ConfigError, Origins};
use crate::value::{PathValue, Value};

/// A pass over declarations of keys, which reads, writes or lists them.
///
/// Each method declares one key of the current table.
pub struct Pass<'a, 'r>(Kind<'a, 'r>);

enum Kind<'a, 'r> {
    Read(Reading<'a, 'r>),
    Print(toml::Table),
    Names { prefix: String, names: &'a mut Vec<String> },
}

/// State of reading a text.
pub(crate) struct Reader<'r> {
    text: &'r str,
    name: &'r str,
    base: &'r Path,
    origins: &'r mut Origins,
    errors: &'r mut Vec<ConfigError>,
}

/// State of reading a table.
struct Reading<'a, 'r> {
    reader: &'a mut Reader<'r>,
    prefix: String,
    table: &'a DeTable<'a>,
    /// Byte offset of the table.
    at: usize,
    known: Vec<&'static str>,
}

impl<'r> Reader<'r> {
    pub(crate) fn new(
        text: &'r str,
        name: &'r str,
        base: &'r Path,
        origins: &'r mut Origins,
        errors: &'r mut Vec<ConfigError>,
    ) -> Self {
        Self { text, name, base, origins, errors }
    }

    fn error(&mut self, at: usize, key: &str, what: String) {
        self.errors.push(ConfigError::at(self.name, self.text, at, key, what));
    }

    fn expected(&mut self, value: &Spanned<DeValue<'_>>, key: &str, expected: &str, why: &str) {
        let span = value.span();
        let found = self.text.get(span.clone()).unwrap_or_default();
        let line = found.lines().next().unwrap_or_default();
        let mut found: String = line.chars().take(40).collect();
        if found.len() < line.len() {
            found.push('…');
        }
        let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
        self.error(span.start, key, format!("found {found}{why}, expected {expected}"));
    }
}

impl Pass<'_, '_> {
    /// Reads a table with the declarations of `keys`, and reports unknown keys.
    pub(crate) fn read(
        mut reader: Reader<'_>,
        table: &DeTable<'_>,
        keys: impl FnOnce(&mut Pass<'_, '_>),
    ) {
        read_table(&mut reader, "", (table, 0), keys);
    }

    pub(crate) fn print(keys: impl FnOnce(&mut Pass<'_, '_>)) -> toml::Table {
        let mut pass = Pass(Kind::Print(toml::Table::new()));
        keys(&mut pass);
        match pass.0 {
            Kind::Print(table) => table,
            _ => unreachable!("a pass does not change its kind"),
        }
    }

    pub(crate) fn names(keys: impl FnOnce(&mut Pass<'_, '_>)) -> Vec<String> {
        let mut names = Vec::new();
        keys(&mut Pass(Kind::Names { prefix: String::new(), names: &mut names }));
        names
    }

    /// Declares a key with a value. Returns whether it is present.
    pub fn key<T: Value>(&mut self, name: &'static str, value: &mut T) -> bool {
        self.key_as::<T, T>(name, value)
    }

    /// As [`key`](Self::key), with the TOML form `F`.
    pub fn key_as<F: Value<T>, T>(&mut self, name: &'static str, value: &mut T) -> bool {
        match &mut self.0 {
            Kind::Read(reading) => {
                let Some(found) = reading.take(name) else { return false };
                let key = reading.path(name);
                match F::read(found.get_ref()) {
                    Ok(read) => *value = read,
                    Err(why) => reading.reader.expected(found, &key, &F::expected(), &why),
                }
                true
            }
            Kind::Print(table) => {
                table.insert(name.into(), F::print(value));
                true
            }
            Kind::Names { prefix, names } => {
                names.push(format!("{prefix}{name}"));
                true
            }
        }
    }

    /// Declares a mandatory key.
    pub fn required<T: Value>(&mut self, name: &'static str, value: &mut T) {
        let found = self.key(name, value);
        self.demand(name, found);
    }

    fn demand(&mut self, name: &'static str, found: bool) {
        if let Kind::Read(reading) = &mut self.0
            && !found
        {
            let at = reading.start();
            let key = reading.prefix.trim_end_matches('.').to_owned();
            reading.reader.error(at, &key, format!("`{name}` is missing"));
        }
    }

    /// Declares a key with a path, relative to the base of the text.
    pub fn path<T: PathValue>(&mut self, name: &'static str, path: &mut T) -> bool {
        let found = self.key(name, path);
        if let Kind::Read(reading) = &mut self.0
            && found
        {
            path.resolve(reading.reader.base);
        }
        found
    }

    /// Declares a mandatory path.
    pub fn required_path(&mut self, name: &'static str, path: &mut PathBuf) {
        let found = self.path(name, path);
        self.demand(name, found);
    }

    /// Declares a table, read over existing values.
    pub fn table<T: Keys + ?Sized>(&mut self, name: &'static str, value: &mut T) {
        self.table_of(name, |pass| value.keys(pass));
    }

    /// As [`table`](Self::table), with the keys declared by `keys`.
    pub fn table_of(&mut self, name: &'static str, keys: impl FnOnce(&mut Pass<'_, '_>)) {
        match &mut self.0 {
            Kind::Read(reading) => {
                let Some(found) = reading.take(name) else { return };
                let key = reading.path(name);
                match found.get_ref() {
                    DeValue::Table(table) => {
                        let at = found.span().start;
                        read_table(reading.reader, &format!("{key}."), (table, at), keys);
                    }
                    _ => reading.reader.expected(found, &key, "a table", ""),
                }
            }
            Kind::Print(table) => {
                table.insert(name.into(), Pass::print(keys).into());
            }
            Kind::Names { prefix, names } => {
                let prefix = format!("{prefix}{name}.");
                keys(&mut Pass(Kind::Names { prefix, names }));
            }
        }
    }

    /// Declares an optional table. `true` stands for an empty table, `false` for none.
    pub fn optional<T: Keys + Default>(&mut self, name: &'static str, value: &mut Option<T>) {
        if let Kind::Read(reading) = &mut self.0
            && let Some(DeValue::Boolean(on)) = reading.table.get(name).map(Spanned::get_ref)
        {
            let at = reading.take(name).map_or(0, |found| found.span().start);
            *value = on.then(T::default);
            if let Some(value) = value {
                // Report its mandatory keys as missing.
                let (prefix, none) = (format!("{}.", reading.path(name)), DeTable::new());
                read_table(reading.reader, &prefix, (&none, at), |pass| value.keys(pass));
            }
            return;
        }
        match &mut self.0 {
            // The table is absent, but its name is known.
            Kind::Read(reading) if !reading.table.contains_key(name) => reading.known.push(name),
            Kind::Print(table) if value.is_none() => {
                table.insert(name.into(), false.into());
            }
            _ => self.table(name, value.get_or_insert_default()),
        }
    }

    /// Declares a list of tables, which replaces the existing list.
    pub fn list<T: Keys>(&mut self, name: &'static str, list: &mut Vec<T>, blank: impl Fn() -> T) {
        match &mut self.0 {
            Kind::Read(reading) => {
                let Some(found) = reading.take(name) else { return };
                let key = reading.path(name);
                let DeValue::Array(array) = found.get_ref() else {
                    return reading.reader.expected(found, &key, "a list of tables", "");
                };
                list.clear();
                for (n, item) in array.iter().enumerate() {
                    let key = format!("{key}[{n}]");
                    let DeValue::Table(table) = item.get_ref() else {
                        reading.reader.expected(item, &key, "a table", "");
                        continue;
                    };
                    reading.note(&key, item.span().start);
                    let mut value = blank();
                    let at = item.span().start;
                    let table = (table, at);
                    read_table(reading.reader, &format!("{key}."), table, |p| value.keys(p));
                    list.push(value);
                }
            }
            Kind::Print(table) => {
                let print = |value: &mut T| Pass::print(|pass| value.keys(pass)).into();
                let items: Vec<toml::Value> = list.iter_mut().map(print).collect();
                table.insert(name.into(), items.into());
            }
            Kind::Names { prefix, names } => {
                let prefix = format!("{prefix}{name}.");
                blank().keys(&mut Pass(Kind::Names { prefix, names }));
            }
        }
    }

    /// As [`list`](Self::list); a single table is read over the element for which `default` is true.
    pub fn list_or_default<T: Keys>(
        &mut self,
        name: &'static str,
        list: &mut Vec<T>,
        blank: impl Fn() -> T,
        default: impl Fn(&T) -> bool,
    ) {
        if let Kind::Read(reading) = &mut self.0
            && let Some(DeValue::Table(_)) = reading.table.get(name).map(Spanned::get_ref)
        {
            let at = list.iter().position(default).unwrap_or(0);
            if list.is_empty() {
                list.push(blank());
            }
            return self.table(name, &mut list[at]);
        }
        self.list(name, list, blank);
    }
}

fn read_table(
    reader: &mut Reader<'_>,
    prefix: &str,
    (table, at): (&DeTable<'_>, usize),
    keys: impl FnOnce(&mut Pass<'_, '_>),
) {
    let reading = Reading { reader, prefix: prefix.to_owned(), table, at, known: Vec::new() };
    let mut pass = Pass(Kind::Read(reading));
    keys(&mut pass);
    if let Kind::Read(reading) = pass.0 {
        reading.tell_unknown();
    }
}

impl<'a> Reading<'a, '_> {
    fn path(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn note(&mut self, key: &str, at: usize) {
        self.reader.origins.record_at(key, self.reader.name, self.reader.text, at);
    }

    /// Returns the value of a key and marks the key as known.
    fn take(&mut self, name: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.known.push(name);
        let found = self.table.get(name)?;
        let key = self.path(name);
        self.note(&key, found.span().start);
        Some(found)
    }

    /// Approximate start of the table: its first key, if it has one.
    fn start(&self) -> usize {
        self.table.keys().map(|key| key.span().start).min().unwrap_or(self.at)
    }

    fn tell_unknown(self) {
        let Self { reader, prefix, table, known, .. } = self;
        for key in table.keys().filter(|key| !known.contains(&&**key.get_ref())) {
            let name = key.get_ref();
            let near = known
                .iter()
                .map(|known| (strsim::damerau_levenshtein(known, name), known))
                .filter(|(distance, known)| *distance <= (known.len() / 2).clamp(1, 3))
                .min();
            let hint = match near {
                Some((_, known)) => format!("did you mean `{known}`?"),
                None => format!("expected one of {}", known.join(", ")),
            };
            let what = format!("unknown key; {hint}");
            reader.error(key.span().start, &format!("{prefix}{name}"), what);
        }
    }
}
