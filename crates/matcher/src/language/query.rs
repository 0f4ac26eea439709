//! The short form of a filter, written after a topic: `k=v&k2>5&k3='a|b'`.
//!
//! An unquoted value that looks like a condition of another language is an error with a hint, instead of a
//! string that no event would equal. Such strings can be written in quotes.

use super::error::{FilterError, Reason, clipped};
use super::expr::{Expr, Operator, Predicate, Test};
use crate::limits::MAX_TEXT;
use crate::number::{Number, NumberError};
use crate::value::Literal;

/// Longer operators come first, because the first match is used.
const OPERATORS: [(&str, Operator); 7] = [
    ("<>", Operator::Differs),
    ("!=", Operator::Differs),
    ("<=", Operator::AtMost),
    (">=", Operator::AtLeast),
    ("=", Operator::Equal),
    ("<", Operator::Less),
    (">", Operator::Greater),
];

/// Characters of comparison operators here and in other languages. An unquoted value must not begin with one of them.
const SIGNS_OF_LANGUAGES: [char; 5] = ['=', '<', '>', '!', '~'];
const OPERATOR_SIGNS: [char; 4] = ['=', '<', '>', '!'];

/// Parses `text` to a tree.
pub(crate) fn parse(text: &str) -> Result<Expr, FilterError> {
    if text.len() > MAX_TEXT {
        return Err(FilterError::new(1, Reason::Long));
    }
    let (mut rest, mut column, mut parts) = (text, 1, Vec::new());
    loop {
        let length = end_of_condition(rest);
        let (part, tail) = rest.split_at(length);
        parts.push(condition(part, column)?);
        let Some(next) = tail.strip_prefix('&') else { return Ok(Expr::join(true, parts)) };
        rest = next;
        column += part.chars().count() + 1;
    }
}

/// The length of the first condition: up to an `&` outside of quotes.
fn end_of_condition(text: &str) -> usize {
    let is_quoted = |at: usize| text[..at].ends_with(OPERATOR_SIGNS);
    let mut in_quotes = false;
    for (at, c) in text.char_indices() {
        match c {
            '\'' if in_quotes => in_quotes = false,
            // An opening quote follows the operator; a doubled quote closes and opens.
            '\'' => in_quotes = is_quoted(at) || text[..at].ends_with('\''),
            '&' if !in_quotes => return at,
            _ => (),
        }
    }
    text.len()
}

fn condition(part: &str, column: usize) -> Result<Expr, FilterError> {
    let found = || if part.is_empty() { "nothing".to_owned() } else { clipped(part, "`") };
    let expected =
        |at, expected| Err(FilterError::new(at, Reason::Expected { expected, found: found() }));
    let Some(at) = part.find(OPERATOR_SIGNS) else {
        return expected(column, "a condition like name=value");
    };
    let (name, rest) = part.split_at(at);
    if name.is_empty() {
        return expected(column, "the name of an attribute");
    }
    if name.trim() != name {
        return Err(FilterError::new(column, Reason::Hint(BLANKS)));
    }
    if name.starts_with('(') {
        return Err(FilterError::new(column, Reason::Hint(NESTED)));
    }
    let tail = column + name.chars().count();
    if name.ends_with(SIGNS_OF_LANGUAGES) {
        return Err(FilterError::new(tail - 1, Reason::Hint(DOUBLED)));
    }
    let known = OPERATORS.iter().find(|(text, _)| rest.starts_with(text));
    let Some((text, operator)) = known else {
        return expected(tail, "=, !=, <, <=, > or >=");
    };
    let place = tail + text.len();
    let value = literal(&rest[text.len()..], place)?;
    let ordered = !matches!(operator, Operator::Equal | Operator::Differs);
    if ordered && matches!(value, Literal::Boolean(_)) {
        return Err(FilterError::new(place, Reason::Unordered));
    }
    Ok(Expr::Test(Predicate { name: name.into(), test: Test::Compare(*operator, value) }))
}

const BLANKS: &str = "blanks beside an operator are part of the name or the value; leave them out, or put the \
                      value in single quotes";
const NESTED: &str = "there are no parentheses here: use $where";
const DOUBLED: &str = "operators are =, !=, <, <=, > and >=; put a value that begins with such a sign in single \
                       quotes";
const SIGN: &str =
    "put a value that contains =, < or > in single quotes; conditions are joined by &";
const EITHER: &str =
    "there is no OR here: use $where, or put a value that contains | in single quotes";
const WORDS: &str = "conditions are joined by &; AND and OR are for $where, and in a value they stand in single \
                     quotes";
const NULL: &str = "IS NULL is for $where; put the text in single quotes";
const CAPITALS: &str = "booleans are true and false in lower case; put the text in single quotes";
const QUOTES: &str =
    "put a string in single quotes, and double each quote within it, or use no quotes";

/// Parses the value at `column`: a number or boolean if possible, otherwise a string.
fn literal(text: &str, column: usize) -> Result<Literal, FilterError> {
    let hint = |at: usize, hint| {
        Err(FilterError::new(column + text[..at].chars().count(), Reason::Hint(hint)))
    };
    if let Some(quoted) = text.strip_prefix('\'') {
        let Some(inner) = quoted.strip_suffix('\'') else { return hint(0, QUOTES) };
        let mut value = String::with_capacity(inner.len());
        for (n, piece) in inner.split("''").enumerate() {
            if piece.contains('\'') {
                return hint(0, QUOTES);
            }
            value.push_str(if n > 0 { "'" } else { "" });
            value.push_str(piece);
        }
        return Ok(Literal::String(value.into()));
    }
    match Number::parse(text) {
        Ok(number) => return Ok(Literal::Number(number)),
        Err(NumberError::Form) => (),
        Err(error) => return Err(FilterError::new(column, Reason::Number(error))),
    }
    if text.starts_with(SIGNS_OF_LANGUAGES) {
        return hint(0, DOUBLED);
    }
    if text.starts_with('"') {
        return hint(0, QUOTES);
    }
    if text.trim() != text {
        return hint(0, BLANKS);
    }
    if let Some(at) = text.find('|') {
        return hint(at, EITHER);
    }
    if let Some(at) = text.find(['=', '<', '>']) {
        return hint(at, SIGN);
    }
    if let Some(at) = text.find(" AND ").or_else(|| text.find(" OR ")) {
        return hint(at + 1, WORDS);
    }
    match text {
        "true" => Ok(Literal::Boolean(true)),
        "false" => Ok(Literal::Boolean(false)),
        _ if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false") => {
            hint(0, CAPITALS)
        }
        _ if text.eq_ignore_ascii_case("null") => hint(0, NULL),
        _ => Ok(Literal::String(text.into())),
    }
}
