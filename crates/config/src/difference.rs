//! Which keys of two configurations differ: what a server that runs is asked to change.

use toml::{Table, Value};

/// The keys of `new` whose values are others than in `old`: those of a table one by one (`runtime.pin`), but tables
/// within tables, and lists, as a whole.
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
