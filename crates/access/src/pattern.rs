//! Topic patterns: levels separated by slashes; `+` matches one level, `#` all following levels; `%u` and
//! `%c` are replaced by the user name and the client identifier.
//!
//! Names chosen by a client must not widen a pattern: if the name is empty or contains a slash, `+` or `#`,
//! the pattern matches no topic.

use crate::subject::Subject;

/// A topic pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern(Vec<Level>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Level {
    Text(Box<str>),
    /// `+`
    One,
    /// `#`
    Rest,
    /// Text with placeholders.
    Template(Vec<Part>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Box<str>),
    User,
    Client,
}

impl Pattern {
    /// Parses a pattern; `allow_placeholders` enables `%u` and `%c`.
    ///
    /// # Errors
    /// The column, from 1, and a description.
    pub(crate) fn parse(text: &str, allow_placeholders: bool) -> Result<Self, (usize, String)> {
        if text.is_empty() {
            return Err((1, "expected a topic".into()));
        }
        if let Some(at) = text.chars().position(char::is_control) {
            return Err((at + 1, "a topic cannot contain control characters".into()));
        }
        let (mut levels, mut column) = (Vec::new(), 1);
        let mut rest = text.split('/').peekable();
        while let Some(level) = rest.next() {
            let depth =
                |message| column + level.split(message).next().map_or(0, |it| it.chars().count());
            levels.push(match level {
                "+" => Level::One,
                "#" if rest.peek().is_none() => Level::Rest,
                "#" => return Err((column, "`#` is only allowed at the end".into())),
                _ if level.contains('+') => {
                    return Err((depth('+'), "`+` must be a whole level, between slashes".into()));
                }
                _ if level.contains('#') => {
                    return Err((depth('#'), "`#` must be the whole last level".into()));
                }
                _ if !level.contains("%u") && !level.contains("%c") => Level::Text(level.into()),
                _ if allow_placeholders => Level::Template(parts(level)),
                _ => {
                    let message = "`%u` and `%c` are only replaced in `pattern` lines";
                    return Err((depth('%'), message.into()));
                }
            });
            column += level.chars().count() + 1;
        }
        Ok(Self(levels))
    }

    /// Whether the pattern matches a topic.
    pub(crate) fn matches(&self, topic: &str, subject: Subject<'_>) -> bool {
        let mut rest = topic.split('/');
        for (depth, level) in self.0.iter().enumerate() {
            let system = depth == 0 && topic.starts_with('$');
            match (level, rest.next()) {
                (Level::Rest, _) => return !system,
                (_, None) => return false,
                (Level::One, Some(_)) if system => return false,
                (Level::One, Some(_)) => (),
                (Level::Text(text), Some(level)) if **text == *level => (),
                (Level::Template(parts), Some(level)) if expands_to(parts, level, subject) => (),
                _ => return false,
            }
        }
        rest.next().is_none()
    }

    /// Whether the pattern matches every topic that `filter` matches. May return false if that is hard to
    /// determine.
    pub(crate) fn covers(&self, filter: &str, subject: Subject<'_>) -> bool {
        let mut rest = filter.split('/');
        for (depth, level) in self.0.iter().enumerate() {
            let system = depth == 0 && filter.starts_with('$');
            match (level, rest.next()) {
                (Level::Rest, _) => return !system,
                (_, None | Some("#")) => return false,
                (Level::One, Some(_)) if system => return false,
                (Level::One, Some(_)) => (),
                (_, Some("+")) => return false,
                (Level::Text(text), Some(level)) if **text == *level => (),
                (Level::Template(parts), Some(level)) if expands_to(parts, level, subject) => (),
                _ => return false,
            }
        }
        rest.next().is_none()
    }

    /// Whether the pattern and `filter` match a common topic.
    pub(crate) fn overlaps(&self, filter: &str, subject: Subject<'_>) -> bool {
        let mut rest = filter.split('/');
        for (depth, level) in self.0.iter().enumerate() {
            let name;
            let text = match level {
                Level::Text(text) => Some(&**text),
                Level::Template(parts) => match expand(parts, subject) {
                    Some(expanded) => {
                        name = expanded;
                        Some(name.as_str())
                    }
                    None => return false,
                },
                Level::One | Level::Rest => None,
            };
            let other = rest.next();
            if depth == 0 {
                // Topics that begin with `$` are matched only by a literal first level.
                let system = |text: &str| text.starts_with('$');
                let is_wildcard = matches!(other, Some("+" | "#"));
                if text.is_none() && other.is_some_and(system)
                    || text.is_some_and(system) && is_wildcard
                {
                    return false;
                }
            }
            match (level, other) {
                (Level::Rest, _) => return true,
                // `#` matches the rest of this pattern, if its placeholders have valid names.
                (_, Some("#")) => {
                    return self.0[depth..].iter().all(|level| level.has_valid_names(subject));
                }
                (_, None) => return false,
                (Level::One, Some(_)) | (_, Some("+")) => (),
                (_, Some(other)) if text == Some(other) => (),
                _ => return false,
            }
        }
        matches!((rest.next(), rest.next()), (None, _) | (Some("#"), None))
    }
}

impl Level {
    /// Whether its placeholders have valid names.
    fn has_valid_names(&self, subject: Subject<'_>) -> bool {
        match self {
            Level::Template(parts) => expand(parts, subject).is_some(),
            _ => true,
        }
    }
}

fn parts(level: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = level;
    while !rest.is_empty() {
        let next = [("%u", Part::User), ("%c", Part::Client)];
        let found = next.into_iter().filter_map(|(name, part)| Some((rest.find(name)?, part)));
        let Some((at, part)) = found.min_by_key(|(at, _)| *at) else { break };
        if at > 0 {
            parts.push(Part::Text(rest[..at].into()));
        }
        parts.push(part);
        rest = &rest[at + 2..];
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest.into()));
    }
    parts
}

/// The text of a part; `None` for a missing name or one that is not allowed in a topic.
fn expand_part<'a>(part: &'a Part, subject: Subject<'a>) -> Option<&'a str> {
    match part {
        Part::Text(text) => Some(text),
        Part::User => valid_name(subject.user?),
        Part::Client => valid_name(subject.client),
    }
}

fn valid_name(valid_name: &str) -> Option<&str> {
    // A leading `$` would give access to system topics.
    let bad = valid_name.is_empty()
        || valid_name.starts_with('$')
        || valid_name.contains(['/', '+', '#']);
    (!bad).then_some(valid_name)
}

fn expands_to(parts: &[Part], level: &str, subject: Subject<'_>) -> bool {
    let rest =
        parts.iter().try_fold(level, |rest, part| rest.strip_prefix(expand_part(part, subject)?));
    rest == Some("")
}

fn expand(parts: &[Part], subject: Subject<'_>) -> Option<String> {
    parts.iter().map(|part| expand_part(part, subject)).collect()
}
