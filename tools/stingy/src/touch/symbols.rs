//! Functions and static variables of a program.

use std::collections::HashMap;
use std::path::Path;

use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};

use crate::error::Error;

/// The symbols of an ELF program, by the addresses of its file.
#[derive(Debug)]
pub(crate) struct Symbols {
    /// Sorted by the address.
    all: Vec<Symbol>,
    /// Ranges of the loaded segments.
    segments: Vec<(u64, u64)>,
}

/// A function or a static variable.
#[derive(Clone, Debug)]
pub(crate) struct Symbol {
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    pub(crate) is_function: bool,
    /// Demangled.
    pub(crate) name: String,
}

impl Symbols {
    pub(crate) fn load(path: &Path) -> Result<Self, Error> {
        let bytes = std::fs::read(path).map_err(Error::read(path))?;
        let file = object::File::parse(&*bytes)
            .map_err(|error| Error::contents(path, format!("not an ELF program: {error}")))?;
        let mut all: Vec<_> = file
            .symbols()
            .filter(|symbol| symbol.is_definition())
            .filter(|symbol| matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Data))
            .filter_map(|symbol| {
                Some(Symbol {
                    at: symbol.address(),
                    bytes: symbol.size(),
                    is_function: symbol.kind() == SymbolKind::Text,
                    name: format!("{:#}", rustc_demangle::demangle(symbol.name().ok()?)),
                })
            })
            .collect();
        if all.is_empty() {
            let sections = file.sections().filter(|section| section.size() > 0).count();
            let message = format!("no symbol in {sections} sections; do not strip the program");
            return Err(Error::contents(path, message));
        }
        all.sort_by_key(|symbol| symbol.at);
        let segments =
            file.segments().map(|part| (part.address(), part.address() + part.size())).collect();
        Ok(Self { all, segments })
    }

    /// Entry addresses of functions, with the index of the longest pattern that is their name or a path to it.
    ///
    /// # Errors
    /// The reason why a pattern has no function.
    pub(crate) fn entries(&self, patterns: &[&str]) -> Result<HashMap<u64, usize>, String> {
        let mut entries = HashMap::new();
        for symbol in self.all.iter().filter(|symbol| symbol.is_function) {
            let matching = patterns.iter().enumerate().filter(|(_, of)| matches(&symbol.name, of));
            let longest = matching.rev().max_by_key(|(_, pattern)| pattern.len());
            entries.extend(longest.map(|(stage, _)| (symbol.at, stage)));
        }
        let unused = (0..patterns.len()).find(|stage| !entries.values().any(|used| used == stage));
        let Some(pattern) = unused.map(|stage| patterns[stage]) else { return Ok(entries) };
        let functions = self.all.iter().filter(|symbol| symbol.is_function);
        Err(match functions.map(|symbol| &symbol.name).find(|name| matches(name, pattern)) {
            Some(name) => {
                format!("another stage contains `{name}` too; state functions of one stage only")
            }
            None => format!(
                "no function has a name that begins with `{pattern}`; state functions with \
                 `--stage NAME=FUNCTION`, and see `nm -C` for names"
            ),
        })
    }

    /// Whether an address is in the program.
    pub(crate) fn contains(&self, at: u64) -> bool {
        self.segments.iter().any(|&(start, end)| (start..end).contains(&at))
    }

    /// The name of the symbol at an address.
    pub(crate) fn name_at(&self, at: u64) -> Option<&str> {
        let before = self.all.partition_point(|symbol| symbol.at <= at);
        let symbol = self.all[..before].last()?;
        (at < symbol.at + symbol.bytes.max(1)).then_some(&symbol.name)
    }
}

/// Whether a name begins with a pattern, and the pattern ends where an identifier ends.
fn matches(name: &str, pattern: &str) -> bool {
    let rest = name.strip_prefix(pattern);
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_end_with_an_identifier() {
        assert!(matches("web::serve::{{closure}}", "web::serve"));
        assert!(matches("parse", "parse"));
        assert!(!matches("parse_all", "parse"));
        assert!(!matches("drop_in_place<web::serve>", "web::serve"));
    }
}
