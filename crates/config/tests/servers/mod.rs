//! Checks for the configurations of both servers: errors name their position, printed configurations read back, and
//! the reference page is current. The tests of both servers include this file.

use std::fmt::Debug;
use std::path::Path;

use phalanx_config::{ConfigError, Keys, Origins, changes, read, reference, table};

/// The configuration of a server.
pub(crate) trait Server: Keys + Clone + Debug + Default + PartialEq {
    fn check(&self) -> Vec<ConfigError>;

    /// Reads and checks a text as `--check` does.
    fn parse(text: &str) -> Result<Self, Vec<ConfigError>> {
        let (mut config, mut origins) = (Self::default(), Origins::default());
        config.over(text, "", &mut origins)?;
        let located = |error: ConfigError| error.located(&origins);
        let errors: Vec<_> = config.check().into_iter().map(located).collect();
        if errors.is_empty() { Ok(config) } else { Err(errors) }
    }

    /// Reads a text over this configuration.
    fn over(
        &mut self,
        text: &str,
        base: &str,
        origins: &mut Origins,
    ) -> Result<(), Vec<ConfigError>> {
        read(self, text, "a.toml", Path::new(base), origins)
    }

    /// The printed configuration, read over `other`. The keys that differ from `other` give the same.
    fn printed_over(&self, other: Self) -> Self {
        let [all, different] = [table(self), changes(self, &other)].map(|table| {
            let (text, mut other) = (table.to_string(), other.clone());
            let read = other.over(&text, "", &mut Origins::default());
            assert!(read.is_ok(), "{text}\n{read:?}");
            other
        });
        assert_eq!(all, different);
        all
    }
}

/// Texts with errors, each with the start of the first message after `a.toml:` and another part of it. Messages are
/// one line.
pub(crate) fn errors_are_reported<C: Server>(table: &[(&str, &str, &str)]) {
    for (text, start, part) in table {
        let errors = C::parse(text).expect_err(text);
        let found = errors[0].to_string();
        let start = format!("a.toml:{start}");
        assert!(found.starts_with(&start) && found.contains(part), "{text:?}: {found}");
        assert_eq!(found.lines().count(), 1, "{found}");
    }
}

/// Checks that the reference page of a server in `docs` is what its declarations say. With PHALANX_UPDATE=1 in the
/// environment it is written instead.
pub(crate) fn reference_is_current<C: Server>(command: &str) {
    let page = format!("{}/../../docs/{command}/reference.md", env!("CARGO_MANIFEST_DIR"));
    let current = reference(&mut C::default(), command);
    if std::env::var_os("PHALANX_UPDATE").is_some() {
        std::fs::write(&page, &current).unwrap();
    }
    let found = std::fs::read_to_string(&page).unwrap_or_default();
    assert!(
        found == current,
        "{page} is out of date; write it with PHALANX_UPDATE=1 cargo test -p phalanx-{command} --test it reference"
    );
}

/// The first configuration on a page.
pub(crate) fn example(page: &str) -> &str {
    let (_, example) = page.split_once("```toml\n").expect("an example");
    example.split_once("```").expect("its end").0
}
