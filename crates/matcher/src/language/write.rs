//! Writes a tree as text that parses to the same tree.

use std::fmt;

use super::expr::{Comparison, Expr, Predicate, Test};
use super::name::Name;

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (parts, word) = match self {
            Expr::And(parts) => (parts, " AND "),
            Expr::Or(parts) => (parts, " OR "),
            Expr::Not(inner) => {
                f.write_str("NOT ")?;
                return within(inner, true, f);
            }
            Expr::Test(predicate) => return write!(f, "{predicate}"),
            Expr::Compare(comparison) => return write!(f, "{comparison}"),
        };
        for (at, part) in parts.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { word })?;
            within(part, matches!(self, Expr::And(_)), f)?;
        }
        Ok(())
    }
}

/// Writes a part, in parentheses if the surrounding operator binds more tightly.
fn within(part: &Expr, tight: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match part {
        Expr::And(_) | Expr::Or(_) if tight => write!(f, "({part})"),
        _ => write!(f, "{part}"),
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.left, self.operator.text(), self.right)
    }
}

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Name(&self.name))?;
        let not = |negated: &bool| if *negated { " NOT" } else { "" };
        match &self.test {
            Test::Compare(operator, value) => write!(f, " {} {value}", operator.text()),
            Test::Between { low, high, negated } => {
                write!(f, "{} BETWEEN {low} AND {high}", not(negated))
            }
            Test::In { values, negated } => {
                write!(f, "{} IN (", not(negated))?;
                for (at, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if at == 0 { "" } else { ", " })?;
                }
                f.write_str(")")
            }
            Test::Like { pattern, negated } => write!(f, "{} LIKE {pattern}", not(negated)),
            Test::Null { negated } => write!(f, " IS{} NULL", not(negated)),
        }
    }
}
