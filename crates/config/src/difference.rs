//! Comparison of two configurations.

use toml::{Table, Value};

/// The keys of `new` whose values differ from those in `old`: individually for the keys of a table
/// (`runtime.pin`), but as a whole for nested tables and lists.
///
/// ```
/// let old = "a = 1\n[t]\nb = 2\nc = 3".parse().unwrap();
/// let new = "a = 1\n[t]\nb = 2\nc = 4".parse().unwrap();
/// assert_eq!(phalanx_config::differences(&new, &old), ["t.c"]);
/// ```
pub fn differences(new: &Table, old: &Table) -> Vec<String> {
    let mut keys = Vec::new();
    for (key, value) in new {
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
