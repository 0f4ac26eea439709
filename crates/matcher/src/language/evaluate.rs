//! Direct evaluation of a tree with SQL's three truth values: a simple definition that the index is tested
//! against.

use std::cmp::Ordering;

use super::expr::{Expr, Operator, Predicate, Test};
use crate::value::{Literal, Value};

/// True, false, or unknown (`None`).
pub(crate) type Truth = Option<bool>;

/// Whether `expr` holds for an event; `look_up` returns the value of an attribute.
pub(crate) fn evaluate<'a>(expr: &Expr, look_up: &dyn Fn(&str) -> Option<Value<'a>>) -> Truth {
    match expr {
        Expr::And(parts) => decide(parts, false, look_up),
        Expr::Or(parts) => decide(parts, true, look_up),
        Expr::Not(inner) => evaluate(inner, look_up).map(|truth| !truth),
        Expr::Test(predicate) => test(predicate, look_up(&predicate.name)),
    }
}

/// A `decisive` part decides the result; otherwise an unknown part makes it unknown.
fn decide<'a>(
    parts: &[Expr],
    decisive: bool,
    look_up: &dyn Fn(&str) -> Option<Value<'a>>,
) -> Truth {
    let mut known = true;
    for part in parts {
        match evaluate(part, look_up) {
            Some(truth) if truth == decisive => return Some(decisive),
            Some(_) => {}
            None => known = false,
        }
    }
    known.then_some(!decisive)
}

fn test(predicate: &Predicate, value: Option<Value<'_>>) -> Truth {
    match &predicate.test {
        Test::Null { negated } => Some(value.is_none() != *negated),
        Test::Compare(operator, literal) => {
            let order = compare(value?, literal)?;
            Some(match operator {
                Operator::Equal => order.is_eq(),
                Operator::Differs => order.is_ne(),
                Operator::Less => order.is_lt(),
                Operator::AtMost => order.is_le(),
                Operator::Greater => order.is_gt(),
                Operator::AtLeast => order.is_ge(),
            })
        }
        Test::Between { low, high, negated } => {
            let inside = compare(value?, low)?.is_ge() && compare(value?, high)?.is_le();
            Some(inside != *negated)
        }
        Test::In { values, negated } => {
            // Same as `x = a OR x = b …`: the result is unknown if a member has another type than the value.
            let mut known = true;
            for literal in values {
                match compare(value?, literal) {
                    Some(Ordering::Equal) => return Some(!negated),
                    Some(_) => {}
                    None => known = false,
                }
            }
            known.then_some(*negated)
        }
        Test::Like { prefix, open, negated } => {
            let text = value?.string()?;
            let is = if *open { text.starts_with(&**prefix) } else { text == &**prefix };
            Some(is != *negated)
        }
    }
}

/// The order of `value` and `literal`; `None` if they differ in type. Strings are compared by their bytes,
/// which is the order of their code points.
fn compare(value: Value<'_>, literal: &Literal) -> Option<Ordering> {
    Some(match literal {
        Literal::Boolean(literal) => value.boolean()?.cmp(literal),
        Literal::Number(literal) => value.number()?.cmp(literal),
        Literal::String(literal) => value.string()?.cmp(literal),
    })
}
