//! Passes over declarations of keys: reading, writing, listing and checking them.

use std::ops::{Bound, RangeBounds};

use toml::de::{DeTable, DeValue};

use crate::declaration::{Declaration, Declarer};
use crate::error::ConfigError;
use crate::reader::{Reader, TableReader};
use crate::value::Value;

/// A table of keys.
pub trait Keys {
    /// Declares the keys to a pass.
    fn keys(&mut self, pass: &mut Pass<'_, '_>);
}

/// A table in a list that has a short form: its most important keys as one text.
pub trait Short: Keys + Sized {
    /// Form of the texts, for help and reference.
    const KIND: &'static str;
    /// Description of a valid text, which follows "expected".
    const EXPECTED: &'static str;

    /// Parses a text and adds it to the list.
    ///
    /// # Errors
    /// The reason.
    fn add(list: &mut Vec<Self>, text: &str) -> Result<(), String>;
}

/// A pass over declarations of keys, which reads, writes, lists or checks them.
///
/// Each method declares one key of the current table, with its help text.
pub struct Pass<'a, 'r>(Kind<'a, 'r>);

enum Kind<'a, 'r> {
    Read(TableReader<'a, 'r>),
    Print(TablePrinter),
    Declare(Declarer<'a>),
    Check { prefix: String, errors: &'a mut Vec<ConfigError> },
}

/// A printed table.
struct TablePrinter {
    table: toml::Table,
    /// Values that are not printed, because they are present without the table.
    known: Option<toml::Table>,
}

impl TablePrinter {
    fn add(&mut self, name: &str, value: impl Into<toml::Value>) {
        let value = value.into();
        if self.known.as_ref().is_none_or(|known| known.get(name) != Some(&value)) {
            self.table.insert(name.into(), value);
        }
    }

    /// Adds a table, whose values without it are `blank` if it is not known.
    fn add_table(
        &mut self,
        name: &str,
        blank: impl FnOnce() -> toml::Table,
        keys: impl FnOnce(&mut Pass<'_, '_>),
    ) {
        let present = self.known.as_ref().and_then(|known| known.get(name)?.as_table().cloned());
        let is_known = present.is_some();
        let known = self.known.is_some().then(|| present.unwrap_or_else(blank));
        let table = Pass::print(known, keys);
        if !is_known || !table.is_empty() {
            self.table.insert(name.into(), table.into());
        }
    }

    /// Adds a list of tables, unless it is known as a whole.
    fn add_list<T: Keys>(&mut self, name: &str, list: &mut [T], blank: impl Fn() -> T) {
        let mut print = |known: Option<&toml::Table>| -> toml::Value {
            let table = |value: &mut T| Pass::print(known.cloned(), |pass| value.keys(pass));
            list.iter_mut().map(table).map(toml::Value::from).collect::<Vec<_>>().into()
        };
        let mut value = print(None);
        if let Some(known) = &self.known {
            if known.get(name) == Some(&value) {
                return;
            }
            value = print(Some(&Pass::print(None, |pass| blank().keys(pass))));
        }
        self.table.insert(name.into(), value);
    }
}

impl<'a> Pass<'a, '_> {
    /// Reads a table, which starts at byte `at`, with the declarations of `keys`, and reports unknown keys.
    pub(crate) fn read(
        reader: &mut Reader<'_>,
        prefix: &str,
        (table, at): (&DeTable<'_>, usize),
        keys: impl FnOnce(&mut Pass<'_, '_>),
    ) {
        let mut pass = Pass(Kind::Read(TableReader::new(reader, prefix, table, at)));
        keys(&mut pass);
        if let Kind::Read(reading) = pass.0 {
            reading.report_unknown();
        }
    }

    /// Prints the values that are not `known`; all if it is `None`.
    pub(crate) fn print(
        known: Option<toml::Table>,
        keys: impl FnOnce(&mut Pass<'_, '_>),
    ) -> toml::Table {
        let mut pass = Pass(Kind::Print(TablePrinter { table: toml::Table::new(), known }));
        keys(&mut pass);
        match pass.0 {
            Kind::Print(printing) => printing.table,
            _ => unreachable!("a pass does not change its kind"),
        }
    }

    pub(crate) fn declare(to: Declarer<'a>, keys: impl FnOnce(&mut Pass<'_, '_>)) {
        keys(&mut Pass(Kind::Declare(to)));
    }

    pub(crate) fn check(
        prefix: String,
        errors: &mut Vec<ConfigError>,
        keys: impl FnOnce(&mut Pass<'_, '_>),
    ) {
        keys(&mut Pass(Kind::Check { prefix, errors }));
    }
}

impl Pass<'_, '_> {
    /// The heading of the following keys of this table, in help and reference.
    pub fn section(&mut self, heading: &'static str) {
        if let Kind::Declare(declaring) = &mut self.0 {
            declaring.section = heading;
        }
    }

    /// Declares a key with a value. Returns whether it is present.
    pub fn key<T: Value>(&mut self, name: &'static str, value: &mut T, help: &'static str) -> bool {
        self.key_as::<T, T>(name, value, help)
    }

    /// Like [`key`](Self::key), with the TOML form `F`.
    pub fn key_as<F: Value<T>, T>(
        &mut self,
        name: &'static str,
        value: &mut T,
        help: &'static str,
    ) -> bool {
        match &mut self.0 {
            Kind::Read(reading) => return reading.key::<F, T>(name, value, ""),
            Kind::Print(printing) => printing.add(name, F::print(value)),
            Kind::Declare(declaring) => {
                let default = F::print(value).to_string();
                declaring.add(name, F::kind(), F::LIST, Some(default), help);
            }
            Kind::Check { .. } => (),
        }
        false
    }

    /// Like [`key`](Self::key), for values in a range; `false` is always allowed.
    pub fn range<T: Value + PartialOrd>(
        &mut self,
        name: &'static str,
        value: &mut T,
        range: impl RangeBounds<T>,
        help: &'static str,
    ) {
        self.range_as::<T, T>(name, value, range, help);
    }

    /// Like [`range`](Self::range), with the TOML form `F`.
    pub fn range_as<F: Value<T>, T: PartialOrd>(
        &mut self,
        name: &'static str,
        value: &mut T,
        range: impl RangeBounds<T>,
        help: &'static str,
    ) {
        let bounds = || match (range.start_bound(), range.end_bound()) {
            (Bound::Included(start), Bound::Included(end)) => {
                format!("{} to {}", printed::<F, T>(start), printed::<F, T>(end))
            }
            (Bound::Included(start), _) => format!("at least {}", printed::<F, T>(start)),
            _ => unreachable!("a range has a first value"),
        };
        if let Kind::Read(reading) = &mut self.0 {
            reading.key::<F, T>(name, value, &format!("; {}", bounds()));
            return;
        }
        self.key_as::<F, T>(name, value, help);
        match &mut self.0 {
            Kind::Declare(declaring) => declaring.last().bounds = Some(bounds()),
            Kind::Check { prefix, errors } if !range.contains(value) => {
                let found = F::print(value);
                if found != toml::Value::Boolean(false) {
                    let none =
                        if F::kind().ends_with("|false") { ", or false for none" } else { "" };
                    let message = format!("found {found}, expected {}{none}", bounds());
                    errors.push(ConfigError::for_key(format!("{prefix}{name}"), message));
                }
            }
            _ => (),
        }
    }

    /// Declares a mandatory key.
    pub fn required<T: Value + Default + PartialEq>(
        &mut self,
        name: &'static str,
        value: &mut T,
        help: &'static str,
    ) {
        self.key(name, value, help);
        match &mut self.0 {
            Kind::Declare(declaring) => declaring.last().default = None,
            Kind::Check { prefix, errors } if *value == T::default() => {
                let table = prefix.trim_end_matches('.');
                let error = ConfigError::for_key(table, format!("`{name}` is missing"));
                errors.push(error.with_keys([name]));
            }
            _ => (),
        }
    }

    /// Describes the default of the last key, which depends on the machine.
    pub fn default_is(&mut self, text: &str) {
        if let Kind::Declare(declaring) = &mut self.0 {
            declaring.last().default = Some(text.to_owned());
        }
    }

    /// Declares `include`, the patterns of further files, which [`Origins::take_includes`](crate::Origins::take_includes)
    /// returns.
    pub fn include(&mut self) {
        match &mut self.0 {
            Kind::Read(reading) => reading.include(),
            Kind::Declare(declaring) => {
                let help = "further configuration files to read, relative to this one; a glob such as \
                            hosts.d/*.toml may match none";
                let kind = <Vec<String> as Value>::kind();
                declaring.without_flags().add("include", kind, true, Some("[]".into()), help);
            }
            Kind::Print(_) | Kind::Check { .. } => (),
        }
    }

    /// Declares a table, read over existing values.
    pub fn table<T: Keys + ?Sized>(&mut self, name: &'static str, value: &mut T) {
        match &mut self.0 {
            Kind::Read(reading) => reading.table(name, |pass| value.keys(pass)),
            Kind::Print(printing) => {
                printing.add_table(name, toml::Table::new, |pass| value.keys(pass));
            }
            Kind::Declare(declaring) => {
                Pass::declare(declaring.table(name), |pass| value.keys(pass));
            }
            Kind::Check { prefix, errors } => {
                Pass::check(format!("{prefix}{name}."), errors, |pass| value.keys(pass));
            }
        }
    }

    /// Declares a table that may be absent: `false` removes it, `true` creates one of default values.
    pub fn optional<T: Keys + Default>(
        &mut self,
        name: &'static str,
        value: &mut Option<T>,
        help: &'static str,
    ) {
        match &mut self.0 {
            Kind::Read(reading) => match reading.boolean(name) {
                Some(on) => *value = on.then(T::default),
                None if reading.has(name) => {
                    // A table may be spread over several files, unless one of them sets it to `false`.
                    if value.is_none() {
                        reading.check_unset(name);
                    }
                    let declarations_of = || declarations(&mut T::default());
                    reading.optional(name, declarations_of, |pass| {
                        value.get_or_insert_default().keys(pass)
                    });
                }
                None => reading.known(name),
            },
            Kind::Print(printing) => match value {
                None => printing.add(name, false),
                Some(value) => {
                    let blank = || Pass::print(None, |pass| T::default().keys(pass));
                    printing.add_table(name, blank, |pass| value.keys(pass));
                }
            },
            Kind::Check { .. } if value.is_none() => (),
            Kind::Declare(declaring) => {
                declaring.add(name, "bool|table".into(), false, Some("false".into()), help);
                let inner = declaring.optional(name);
                Pass::declare(inner, |pass| value.get_or_insert_default().keys(pass));
            }
            _ => self.table(name, value.get_or_insert_default()),
        }
    }

    /// Like [`key`](Self::key), for a key whose flag would have the same name as another flag.
    pub fn key_without_flag<T: Value>(
        &mut self,
        name: &'static str,
        value: &mut T,
        help: &'static str,
    ) {
        match &mut self.0 {
            Kind::Declare(declaring) => {
                Pass::declare(declaring.without_flags(), |pass| {
                    pass.key(name, value, help);
                });
            }
            _ => {
                self.key(name, value, help);
            }
        }
    }

    /// Like [`optional`](Self::optional), for a table whose flags would have the same names as other flags.
    pub fn optional_without_flag<T: Keys + Default>(
        &mut self,
        name: &'static str,
        value: &mut Option<T>,
        help: &'static str,
    ) {
        match &mut self.0 {
            Kind::Declare(declaring) => {
                Pass::declare(declaring.without_flags(), |pass| pass.optional(name, value, help));
            }
            _ => self.optional(name, value, help),
        }
    }

    /// Declares a list of tables, which replaces the existing list. The list of an included file is appended to those
    /// of earlier files.
    pub fn list<T: Keys>(&mut self, name: &'static str, list: &mut Vec<T>, blank: impl Fn() -> T) {
        match &mut self.0 {
            Kind::Read(reading) => {
                let kept_elements = reading.kept_elements(name, list.len());
                if let Some(tables) = reading.tables(name, kept_elements) {
                    list.truncate(kept_elements);
                    for (key, table) in tables {
                        let mut value = blank();
                        let at = table.span().start;
                        if let DeValue::Table(table) = table.get_ref() {
                            let reader = &mut *reading.reader;
                            Pass::read(reader, &key, (table, at), |pass| value.keys(pass));
                        }
                        list.push(value);
                    }
                }
            }
            Kind::Print(printing) => printing.add_list(name, list, blank),
            Kind::Declare(declaring) => {
                Pass::declare(declaring.list(name), |pass| blank().keys(pass));
            }
            Kind::Check { prefix, errors } => {
                for (n, value) in list.iter_mut().enumerate() {
                    Pass::check(format!("{prefix}{name}[{n}]."), errors, |pass| value.keys(pass));
                }
            }
        }
    }

    /// Like [`list`](Self::list), for tables with a [short form](Short). A list of texts may replace the list of
    /// tables, and the key has a flag.
    pub fn short_list<T: Short>(
        &mut self,
        name: &'static str,
        list: &mut Vec<T>,
        blank: impl Fn() -> T,
        help: &'static str,
    ) {
        match &mut self.0 {
            Kind::Read(reading) if reading.has_texts(name) => {
                list.truncate(reading.kept_elements(name, list.len()));
                reading.texts(name, T::EXPECTED, |text| T::add(list, text));
            }
            Kind::Declare(declaring) => {
                declaring.add(name, T::KIND.into(), true, Some("[]".into()), help);
                self.list(name, list, blank);
            }
            _ => self.list(name, list, blank),
        }
    }

    /// Like [`list`](Self::list); a single table is read over the element for which `default` is true.
    pub fn list_or_default<T: Keys>(
        &mut self,
        name: &'static str,
        list: &mut Vec<T>,
        blank: impl Fn() -> T,
        default: impl Fn(&T) -> bool,
    ) {
        match &mut self.0 {
            Kind::Read(reading) if reading.is_table(name) => {
                if list.is_empty() {
                    list.push(blank());
                }
                match list.iter().position(default) {
                    Some(at) => {
                        let value = &mut list[at];
                        reading.table_of_list(name, at, |pass| value.keys(pass));
                    }
                    None => reading.reject(name, "there is no default host: all hosts have names"),
                }
            }
            Kind::Declare(declaring) => {
                Pass::declare(declaring.table(name), |pass| blank().keys(pass));
            }
            _ => self.list(name, list, blank),
        }
    }
}

/// The declarations of all keys, in their order, with the values of `keys` as defaults.
pub fn declarations(keys: &mut impl Keys) -> Vec<Declaration> {
    let mut all = Vec::new();
    Pass::declare(Declarer::new(&mut all), |pass| keys.keys(pass));
    all
}

/// All keys with their values, which [`read`](crate::read) restores.
pub fn table<K: Keys + Clone>(keys: &K) -> toml::Table {
    let mut keys = keys.clone();
    Pass::print(None, |pass| keys.keys(pass))
}

/// The keys whose values differ from those of `defaults`, which [`read`](crate::read) over `defaults` restores. In a
/// list of tables, the keys of each table that differ from those of a new one.
pub fn changes<K: Keys + Clone>(keys: &K, defaults: &K) -> toml::Table {
    let mut keys = keys.clone();
    Pass::print(Some(table(defaults)), |pass| keys.keys(pass))
}

/// A value without quotation marks.
fn printed<F: Value<T>, T>(value: &T) -> String {
    F::print(value).to_string().replace('"', "")
}
