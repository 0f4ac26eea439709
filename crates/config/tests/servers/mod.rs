//! Checks for the configurations of both servers: errors name their position, and the documentation of the
//! keys is complete. The tests of both servers include this file.

use std::fmt::Debug;

use phalanx_config::ConfigError;

/// Texts with errors, each with the start of the first message and another part of it. Messages are one line.
pub(crate) fn errors_are_reported<C: Debug>(
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

/// Checks that a page of the documentation has a row for each key and for nothing else, with its type and
/// default. `is_default` returns whether `key = default` is the default. It is not called for keys in
/// `tables`, because setting one creates the table.
pub(crate) fn check_page(
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
