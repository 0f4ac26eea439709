//! Comparison of two configurations.

use toml::Value;

use crate::pass::{Keys, table};

/// The keys of `new` whose values differ from those in `old`: individually for the keys of a table
/// (`runtime.pin`), but as a whole for nested tables and lists. After a reload with `new`, these are the keys that
/// need a restart, if `old` is the configuration in force.
pub fn differences<K: Keys + Clone>(new: &K, old: &K) -> Vec<String> {
    let (mut keys, old) = (Vec::new(), table(old));
    for (key, value) in &table(new) {
        match (value, old.get(key)) {
            (value, Some(other)) if value == other => (),
            (Value::Table(new), Some(Value::Table(old))) => {
                let differ = new.iter().filter(|(key, value)| old.get(*key) != Some(value));
                keys.extend(differ.map(|(inner, _)| format!("{key}.{inner}")));
            }
            _ => keys.push(key.clone()),
        }
    }
    keys
}
