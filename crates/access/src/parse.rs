//! Parses an access list: sections that start with `user` or `client`, containing rules for topics.

use std::path::Path;

use crate::error::{FileError, LineError};
use crate::pattern::Pattern;
use crate::rules::{Access, Rule, Rules};

/// The clients that the following lines apply to.
enum Section {
    Anonymous,
    User(String),
    Client(String),
}

/// A word of a line and the rest of the line, each with its column.
struct Word<'a> {
    word: &'a str,
    column: usize,
    rest: &'a str,
    rest_column: usize,
}

/// The first word of `text`, which starts at `column`.
fn word(text: &str, column: usize) -> Word<'_> {
    let trimmed = text.trim_start();
    let start = column + text.chars().count() - trimmed.chars().count();
    let end = trimmed.find(char::is_whitespace).unwrap_or(trimmed.len());
    let (word, rest) = trimmed.split_at(end);
    let rest = rest.trim_start();
    let rest_column = start + trimmed.chars().count() - rest.chars().count();
    Word { word, column: start, rest: rest.trim_end(), rest_column }
}

impl Rules {
    /// Reads an access list from a file. May block.
    ///
    /// # Errors
    /// [`FileError`] with the lines and columns of all errors.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let text = std::fs::read_to_string(path).map_err(FileError::io("read", path))?;
        Self::parse(&text).map_err(|errors| FileError::Invalid { path: path.into(), errors })
    }

    /// Parses an access list.
    ///
    /// # Errors
    /// All errors, at least one.
    pub fn parse(text: &str) -> Result<Self, Vec<LineError>> {
        let (mut rules, mut errors) = (Self::default(), Vec::new());
        let mut section = Section::Anonymous;
        for (n, line) in text.lines().enumerate() {
            if let Err((column, message)) = parse_line(line, &mut section, &mut rules) {
                errors.push(LineError { line: n + 1, column, message });
            }
        }
        if errors.is_empty() { Ok(rules) } else { Err(errors) }
    }
}

fn parse_line(line: &str, section: &mut Section, rules: &mut Rules) -> Result<(), (usize, String)> {
    let first = word(line, 1);
    let name = || match first.rest {
        "" => Err((first.rest_column, format!("expected a name after `{}`", first.word))),
        name => Ok(name.to_owned()),
    };
    match first.word {
        "" => (),
        comment if comment.starts_with('#') => (),
        "user" => *section = Section::User(name()?),
        "client" => *section = Section::Client(name()?),
        "topic" => {
            let rule = parse_rule(&first, false)?;
            let list = match section {
                Section::Anonymous => &mut rules.anonymous,
                Section::User(name) => rules.users.entry(name.clone()).or_default(),
                Section::Client(name) => rules.clients.entry(name.clone()).or_default(),
            };
            list.push(rule);
        }
        // Applies to all clients, in any section.
        "pattern" => rules.everybody.push(parse_rule(&first, true)?),
        other => {
            let message = format!(
                "found `{other}`, expected `user`, `client`, `topic`, `pattern` or a comment"
            );
            return Err((first.column, message));
        }
    }
    Ok(())
}

fn parse_rule(first: &Word<'_>, has_placeholders: bool) -> Result<Rule, (usize, String)> {
    let second = word(first.rest, first.rest_column);
    let access = match second.word {
        "read" => Some(Access::Read),
        "write" => Some(Access::Write),
        "readwrite" => Some(Access::ReadWrite),
        "deny" => Some(Access::Deny),
        _ => None,
    };
    let (access, topic, column) = match access {
        // A topic may contain spaces, but a misspelled `deny` must not become part of one.
        None if !second.rest.is_empty() => {
            let message = format!(
                "found `{}`, expected `read`, `write`, `readwrite` or `deny` (required before a topic with spaces)",
                second.word
            );
            return Err((second.column, message));
        }
        None => (Access::ReadWrite, first.rest, first.rest_column),
        Some(_) if second.rest.is_empty() => {
            let message = format!("expected a topic after `{}`", second.word);
            return Err((second.rest_column, message));
        }
        Some(access) => (access, second.rest, second.rest_column),
    };
    let pattern = Pattern::parse(topic, has_placeholders)
        .map_err(|(offset, message)| (column + offset - 1, message))?;
    Ok(Rule { access, pattern })
}
