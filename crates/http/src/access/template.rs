//! Access log lines from a template of named fields.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::{Access, LogTime, address, name, number, text};

/// A line format: text in which `$NAME` stands for a field, and `$$` for a dollar sign.
///
/// Data from clients is escaped as in the other text formats. A field that is not between two quotation marks
/// contains no spaces either, so that it remains one word.
///
/// ```
/// use phalanx_http::LogTemplate;
///
/// let template: LogTemplate = "$host $status \"$agent\"".parse()?;
/// assert_eq!(template.to_string(), "$host $status \"$agent\"");
/// assert!("$agents".parse::<LogTemplate>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogTemplate {
    text: Arc<str>,
    parts: Arc<[Part]>,
}

#[derive(Debug, PartialEq, Eq)]
enum Part {
    Text(Box<str>),
    /// A field, and whether it is between quotation marks.
    Field(Field, bool),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Address,
    User,
    Host,
    Request,
    Status,
    Bytes,
    Referer,
    Agent,
    Time,
    Date,
    DurationUs,
}

impl Field {
    const ALL: [(&'static str, Self); 11] = [
        ("address", Self::Address),
        ("user", Self::User),
        ("host", Self::Host),
        ("request", Self::Request),
        ("status", Self::Status),
        ("bytes", Self::Bytes),
        ("referer", Self::Referer),
        ("agent", Self::Agent),
        ("time", Self::Time),
        ("date", Self::Date),
        ("duration_us", Self::DurationUs),
    ];
}

impl FromStr for LogTemplate {
    type Err = String;

    fn from_str(template: &str) -> Result<Self, String> {
        if let Some(control) = template.chars().find(|c| c.is_control()) {
            return Err(format!("a line cannot contain {control:?}"));
        }
        let mut pieces = template.split('$');
        let mut literal = pieces.next().unwrap_or_default().to_owned();
        let (mut parts, mut quotes) = (Vec::new(), 0);
        while let Some(piece) = pieces.next() {
            let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
            let (name, rest) = piece.split_at(piece.find(|c| !is_name(c)).unwrap_or(piece.len()));
            if piece.is_empty()
                && let Some(next) = pieces.next()
            {
                literal.push('$');
                literal.push_str(next);
                continue;
            }
            let Some((_, field)) = Field::ALL.iter().find(|(field_name, _)| *field_name == name)
            else {
                let all = Field::ALL.map(|(name, _)| format!("${name}"));
                return Err(format!(
                    "there is no field ${name}; the fields are {}",
                    all.join(", ")
                ));
            };
            quotes += literal.matches('"').count();
            let is_quoted = quotes % 2 == 1;
            if !literal.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut literal).into()));
            }
            parts.push(Part::Field(*field, is_quoted));
            literal.push_str(rest);
        }
        if !literal.is_empty() {
            parts.push(Part::Text(literal.into()));
        }
        Ok(Self { text: template.into(), parts: parts.into() })
    }
}

impl fmt::Display for LogTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl LogTemplate {
    /// Appends the line without its line feed.
    pub(super) fn write(&self, access: &Access<'_>, time: &LogTime, out: &mut Vec<u8>) {
        for part in &*self.parts {
            let (field, escape) = match part {
                Part::Text(literal) => {
                    out.extend_from_slice(literal.as_bytes());
                    continue;
                }
                Part::Field(field, true) => (field, text as fn(&mut Vec<u8>, &[u8])),
                Part::Field(field, false) => (field, name as fn(&mut Vec<u8>, &[u8])),
            };
            match field {
                Field::Address => address(out, access.address),
                Field::User => escape(out, access.user),
                Field::Host => escape(out, access.host),
                Field::Request => escape(out, access.line),
                Field::Status => number(out, access.status.into()),
                Field::Bytes => number(out, access.bytes),
                Field::Referer => escape(out, access.referer),
                Field::Agent => escape(out, access.agent),
                Field::Time => access.iso(time, out),
                Field::Date => out.extend_from_slice(&time.common),
                Field::DurationUs => number(out, access.duration.as_micros() as u64),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_parsed() {
        for (template, count) in [
            ("", 0),
            ("plain", 1),
            ("$$5", 1),
            ("$status", 1),
            ("$status$bytes", 2),
            ("a$$$status-b", 3),
            ("[$date] \"$request\"", 5),
        ] {
            let parsed: LogTemplate = template.parse().expect(template);
            assert_eq!(parsed.parts.len(), count, "{template}");
        }
        for invalid in ["$", "a $ b", "$$$", "$Status", "$unknown", "$time_x", "a\n$time"] {
            assert!(invalid.parse::<LogTemplate>().is_err(), "{invalid}");
        }
    }
}
