//! A filter as a tree.

use std::cmp::Ordering;

use super::operand::Operand;
use super::pattern::Pattern;
use crate::value::Literal;

/// A condition. `And` and `Or` have at least two parts, and no part is of the same kind as the whole, which
/// makes the written form unique.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Expr {
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    Test(Predicate),
    Compare(Comparison),
}

/// A comparison of two operands, of which neither is a constant or at least one is computed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Comparison {
    pub(crate) left: Operand,
    pub(crate) operator: Operator,
    pub(crate) right: Operand,
}

/// A predicate on one attribute.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Predicate {
    pub(crate) name: Box<str>,
    pub(crate) test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Test {
    Compare(Operator, Literal),
    Between { low: Literal, high: Literal, negated: bool },
    In { values: Vec<Literal>, negated: bool },
    Like { pattern: Pattern, negated: bool },
    Null { negated: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Operator {
    Equal,
    Differs,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

impl Operator {
    /// Whether `order` satisfies the operator.
    pub(crate) fn allows(self, order: Ordering) -> bool {
        match self {
            Operator::Equal => order.is_eq(),
            Operator::Differs => order.is_ne(),
            Operator::Less => order.is_lt(),
            Operator::AtMost => order.is_le(),
            Operator::Greater => order.is_gt(),
            Operator::AtLeast => order.is_ge(),
        }
    }

    /// Whether the operator compares the order of values.
    pub(crate) fn is_ordered(self) -> bool {
        !matches!(self, Operator::Equal | Operator::Differs)
    }

    /// The operator for exchanged operands.
    pub(crate) fn flipped(self) -> Operator {
        match self {
            Operator::Less => Operator::Greater,
            Operator::AtMost => Operator::AtLeast,
            Operator::Greater => Operator::Less,
            Operator::AtLeast => Operator::AtMost,
            same => same,
        }
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Operator::Equal => "=",
            Operator::Differs => "<>",
            Operator::Less => "<",
            Operator::AtMost => "<=",
            Operator::Greater => ">",
            Operator::AtLeast => ">=",
        }
    }
}

impl Expr {
    /// The number of conditions that no index can decide.
    pub(crate) fn computed(&self) -> usize {
        match self {
            Expr::And(parts) | Expr::Or(parts) => parts.iter().map(Expr::computed).sum(),
            Expr::Not(inner) => inner.computed(),
            Expr::Compare(_) => 1,
            Expr::Test(Predicate { test: Test::Like { pattern, .. }, .. }) => {
                usize::from(pattern.is_searched())
            }
            Expr::Test(_) => 0,
        }
    }

    /// Joins the parts; a part that is a join of the same kind is flattened.
    pub(crate) fn join(and: bool, mut parts: Vec<Expr>) -> Expr {
        if parts.len() == 1
            && let Some(only) = parts.pop()
        {
            return only;
        }
        let mut flat = Vec::with_capacity(parts.len());
        for part in parts {
            match (and, part) {
                (true, Expr::And(inner)) | (false, Expr::Or(inner)) => flat.extend(inner),
                (_, other) => flat.push(other),
            }
        }
        if and { Expr::And(flat) } else { Expr::Or(flat) }
    }
}
