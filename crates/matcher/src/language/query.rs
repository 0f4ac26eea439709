//! The short form of a filter, as it stands behind a topic: `k=v&k2>5`.

use super::error::{FilterError, Reason};
use super::expr::{Expr, Operator, Predicate, Test};
use crate::{Filter, Literal, Number};

/// Longer operators first: the first that fits is taken.
const OPERATORS: [(&str, Operator); 7] = [
    ("<>", Operator::Differs),
    ("!=", Operator::Differs),
    ("<=", Operator::AtMost),
    (">=", Operator::AtLeast),
    ("=", Operator::Equal),
    ("<", Operator::Less),
    (">", Operator::Greater),
];

/// The tree of `text`.
pub(crate) fn parse(text: &str) -> Result<Expr, FilterError> {
    if text.len() > Filter::MAX_TEXT {
        return Err(FilterError::new(1, Reason::Long));
    }
    let mut column = 1;
    let mut parts = Vec::new();
    for part in text.split('&') {
        parts.push(condition(part, column)?);
        column += part.chars().count() + 1;
    }
    Ok(Expr::join(true, parts))
}

fn condition(part: &str, column: usize) -> Result<Expr, FilterError> {
    let found = || if part.is_empty() { "nothing".to_owned() } else { format!("`{part}`") };
    let expected = |at, what| Err(FilterError::new(at, Reason::Expected { what, found: found() }));
    let Some(at) = part.find(['=', '<', '>', '!']) else {
        return expected(column, "a condition like name=value");
    };
    let (name, rest) = part.split_at(at);
    if name.is_empty() {
        return expected(column, "the name of an attribute");
    }
    let behind = column + name.chars().count();
    let known = OPERATORS.iter().find(|(text, _)| rest.starts_with(text));
    let Some((text, operator)) = known else {
        return expected(behind, "=, !=, <, <=, > or >=");
    };
    let value = literal(&rest[text.len()..]);
    let ordered = !matches!(operator, Operator::Equal | Operator::Differs);
    if ordered && matches!(value, Literal::Boolean(_)) {
        return Err(FilterError::new(behind + text.len(), Reason::Unordered));
    }
    Ok(Expr::Test(Predicate { name: name.into(), test: Test::Compare(*operator, value) }))
}

/// What the value spells: a number or boolean if it can, else a string.
fn literal(text: &str) -> Literal {
    if let Ok(number) = Number::parse(text) {
        return Literal::Number(number);
    }
    match text {
        "true" => Literal::Boolean(true),
        "false" => Literal::Boolean(false),
        _ => Literal::String(text.into()),
    }
}
