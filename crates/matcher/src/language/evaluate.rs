//! Direct evaluation of a tree with SQL's three truth values. This simple definition is also the reference against
//! which the index is tested.

use std::cmp::Ordering;

use super::expr::{Comparison, Expr, Predicate, Test};
use crate::value::{Literal, Value};

/// True, false, or unknown (`None`).
pub(crate) type Truth = Option<bool>;

/// Whether `expr` holds for an event; `look_up` returns the value of an attribute.
pub(crate) fn evaluate<'a>(expr: &'a Expr, look_up: &dyn Fn(&str) -> Option<Value<'a>>) -> Truth {
    match expr {
        Expr::And(parts) => decide(parts, false, look_up),
        Expr::Or(parts) => decide(parts, true, look_up),
        Expr::Not(inner) => evaluate(inner, look_up).map(|truth| !truth),
        Expr::Test(predicate) => test(predicate, look_up(&predicate.name)),
        Expr::Compare(comparison) => compared(comparison, look_up),
    }
}

/// A `decisive` part decides the result; otherwise an unknown part makes it unknown.
fn decide<'a>(
    parts: &'a [Expr],
    decisive: bool,
    look_up: &dyn Fn(&str) -> Option<Value<'a>>,
) -> Truth {
    let mut is_known = true;
    for part in parts {
        match evaluate(part, look_up) {
            Some(truth) if truth == decisive => return Some(decisive),
            Some(_) => {}
            None => is_known = false,
        }
    }
    is_known.then_some(!decisive)
}

fn test(predicate: &Predicate, value: Option<Value<'_>>) -> Truth {
    match &predicate.test {
        Test::Null { negated } => Some(value.is_none() != *negated),
        Test::Compare(operator, literal) => Some(operator.allows(compare(value?, literal)?)),
        Test::Between { low, high, negated } => {
            let is_inside = compare(value?, low)?.is_ge() && compare(value?, high)?.is_le();
            Some(is_inside != *negated)
        }
        Test::In { values, negated } => {
            // Same as `x = a OR x = b …`: the result is unknown if a member's type differs from the value's.
            let mut is_known = true;
            for literal in values {
                match compare(value?, literal) {
                    Some(Ordering::Equal) => return Some(!negated),
                    Some(_) => {}
                    None => is_known = false,
                }
            }
            is_known.then_some(*negated)
        }
        Test::Like { pattern, negated } => Some(pattern.matches(value?.string()?)? != *negated),
    }
}

/// Compares `value` with `literal`; `None` if they differ in type. Strings are compared by their bytes, which is the
/// order of their code points.
fn compare(value: Value<'_>, literal: &Literal) -> Option<Ordering> {
    Some(match literal {
        Literal::Boolean(literal) => value.boolean()?.cmp(literal),
        Literal::Number(literal) => value.number()?.cmp(literal),
        Literal::String(literal) => value.string()?.cmp(literal),
    })
}

/// Compares two values as numbers if both are numbers, or else as texts, or else as booleans.
fn compared<'a>(
    Comparison { left, operator, right }: &'a Comparison,
    look_up: &dyn Fn(&str) -> Option<Value<'a>>,
) -> Truth {
    let (left, right) = (left.value(look_up)?, right.value(look_up)?);
    let order = if let (Some(left), Some(right)) = (left.number(), right.number()) {
        left.cmp(&right)
    } else if let (Some(left), Some(right)) = (left.string(), right.string()) {
        left.cmp(right)
    } else if operator.is_ordered() {
        return None;
    } else {
        left.boolean()?.cmp(&right.boolean()?)
    };
    Some(operator.allows(order))
}
