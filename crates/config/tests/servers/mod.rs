//! What is looked at in the configurations of both servers alike: that mistakes name their place, and that the page which
//! documents the keys is right. Their tests include this file.

use std::fmt::Debug;

use phalanx_config::ConfigError;

/// Texts with mistakes: each with how the first message begins, and what else is in it. It is one line.
pub(crate) fn mistakes_are_told<C: Debug>(
    read: impl Fn(&str) -> Result<C, Vec<ConfigError>>,
    table: &[(&str, &str, &str)],
) {
    for (text, start, part) in table {
        let errors = read(text).expect_err(text);
        let found = errors[0].to_string();
        assert!(found.starts_with(start) && found.contains(part), "{text:?}: {found}");
        assert_eq!(found.lines().count(), 1, "{found}");
    }
}

/// A page of the documentation has a row for each key and for nothing else, with its type and its default, and `is_default`
/// says of each `key = default` that it is so. Keys in `tables` are left out of that: to say something of one of these is
/// to have it.
pub(crate) fn page_is_right(
    page: &str,
    keys: &[String],
    tables: &[&str],
    is_default: impl Fn(&str) -> bool,
) {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let documented: Vec<(&str, &str)> = rows.collect();
    for key in keys {
        assert!(documented.iter().any(|(name, _)| name == key), "{key} is not documented");
    }
    let mut defaults = 0;
    for (key, row) in documented {
        let table = format!("{key}.");
        let known = keys.iter().any(|other| other == key || other.starts_with(&table));
        assert!(known, "{key} is documented, and no key");
        let default = row.split('|').nth(1).unwrap_or_default().trim();
        let default = default.strip_prefix('`').and_then(|text| text.strip_suffix('`'));
        let within = tables.iter().any(|table| key.starts_with(table));
        if let Some(default) = default.filter(|_| !within) {
            let text = format!("{key} = {default}");
            assert!(is_default(&text), "{text} is documented as the default, and is not");
            defaults += 1;
        }
    }
    assert!(defaults > 10, "the table's third column has the defaults, and {defaults} were found");
}

/// The first example on a page.
pub(crate) fn example(page: &str) -> &str {
    let (_, example) = page.split_once("```toml\n").expect("an example");
    example.split_once("```").expect("its end").0
}
