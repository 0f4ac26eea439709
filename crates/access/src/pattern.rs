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
    Named(Vec<Part>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Box<str>),
    User,
    Client,
}

impl Pattern {
    /// Parses a pattern; `named` enables `%u` and `%c`.
    ///
    /// # Errors
    /// The column, from 1, and a description.
    pub(crate) fn parse(text: &str, named: bool) -> Result<Self, (usize, String)> {
        if text.is_empty() {
            return Err((1, "expected a topic".into()));
        }
        if let Some(at) = text.chars().position(char::is_control) {
            return Err((at + 1, "a topic cannot contain control characters".into()));
        }
        let (mut levels, mut column) = (Vec::new(), 1);
        let mut rest = text.split('/').peekable();
        while let Some(level) = rest.next() {
            let place = |what| column + level.split(what).next().map_or(0, |it| it.chars().count());
            levels.push(match level {
                "+" => Level::One,
                "#" if rest.peek().is_none() => Level::Rest,
                "#" => return Err((column, "`#` is only allowed at the end".into())),
                _ if level.contains('+') => {
                    return Err((place('+'), "`+` must be a whole level, between slashes".into()));
                }
                _ if level.contains('#') => {
                    return Err((place('#'), "`#` must be the whole last level".into()));
                }
                _ if !level.contains("%u") && !level.contains("%c") => Level::Text(level.into()),
                _ if named => Level::Named(parts(level)),
                _ => {
                    let what = "`%u` and `%c` are only replaced in `pattern` lines";
                    return Err((place('%'), what.into()));
                }
            });
            column += level.chars().count() + 1;
        }
        Ok(Self(levels))
    }

    /// Whether the pattern matches a topic.
    pub(crate) fn fits(&self, topic: &str, subject: Subject<'_>) -> bool {
        let mut rest = topic.split('/');
        for (place, level) in self.0.iter().enumerate() {
            let system = place == 0 && topic.starts_with('$');
            match (level, rest.next()) {
                (Level::Rest, _) => return !system,
                (_, None) => return false,
                (Level::One, Some(_)) if system => return false,
                (Level::One, Some(_)) => (),
                (Level::Text(text), Some(level)) if **text == *level => (),
                (Level::Named(parts), Some(level)) if is_named(parts, level, subject) => (),
                _ => return false,
            }
        }
        rest.next().is_none()
    }

    /// Whether the pattern matches every topic that `filter` matches. May return false if that is hard to
    /// determine.
    pub(crate) fn covers(&self, filter: &str, subject: Subject<'_>) -> bool {
        let mut rest = filter.split('/');
        for (place, level) in self.0.iter().enumerate() {
            let system = place == 0 && filter.starts_with('$');
            match (level, rest.next()) {
                (Level::Rest, _) => return !system,
                (_, None | Some("#")) => return false,
                (Level::One, Some(_)) if system => return false,
                (Level::One, Some(_)) => (),
                (_, Some("+")) => return false,
                (Level::Text(text), Some(level)) if **text == *level => (),
                (Level::Named(parts), Some(level)) if is_named(parts, level, subject) => (),
                _ => return false,
            }
        }
        rest.next().is_none()
    }

    /// Whether the pattern and `filter` match a common topic.
    pub(crate) fn meets(&self, filter: &str, subject: Subject<'_>) -> bool {
        let mut rest = filter.split('/');
        for (place, level) in self.0.iter().enumerate() {
            let name;
            let text = match level {
                Level::Text(text) => Some(&**text),
                Level::Named(parts) => match spelled(parts, subject) {
                    Some(it) => {
                        name = it;
                        Some(name.as_str())
                    }
                    None => return false,
                },
                Level::One | Level::Rest => None,
            };
            let theirs = rest.next();
            if place == 0 {
                // Topics that begin with `$` are matched only by a literal first level.
                let system = |text: &str| text.starts_with('$');
                let wild = matches!(theirs, Some("+" | "#"));
                if text.is_none() && theirs.is_some_and(system) || text.is_some_and(system) && wild
                {
                    return false;
                }
            }
            match (level, theirs) {
                (Level::Rest, _) => return true,
                // `#` matches the rest of this pattern, if its placeholders have valid names.
                (_, Some("#")) => return self.0[place..].iter().all(|level| level.stands(subject)),
                (_, None) => return false,
                (Level::One, Some(_)) | (_, Some("+")) => (),
                (_, Some(theirs)) if text == Some(theirs) => (),
                _ => return false,
            }
        }
        matches!((rest.next(), rest.next()), (None, _) | (Some("#"), None))
    }
}

impl Level {
    /// Whether its placeholders have valid names.
    fn stands(&self, subject: Subject<'_>) -> bool {
        match self {
            Level::Named(parts) => spelled(parts, subject).is_some(),
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
fn stands_for<'a>(part: &'a Part, subject: Subject<'a>) -> Option<&'a str> {
    match part {
        Part::Text(text) => Some(text),
        Part::User => name(subject.user?),
        Part::Client => name(subject.client),
    }
}

fn name(name: &str) -> Option<&str> {
    // A leading `$` would give access to system topics.
    let bad = name.is_empty() || name.starts_with('$') || name.contains(['/', '+', '#']);
    (!bad).then_some(name)
}

fn is_named(parts: &[Part], level: &str, subject: Subject<'_>) -> bool {
    let rest =
        parts.iter().try_fold(level, |rest, part| rest.strip_prefix(stands_for(part, subject)?));
    rest == Some("")
}

fn spelled(parts: &[Part], subject: Subject<'_>) -> Option<String> {
    parts.iter().map(|part| stands_for(part, subject)).collect()
}
