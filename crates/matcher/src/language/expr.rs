//! A filter as a tree.

use crate::value::Literal;

/// A condition. `And` and `Or` have at least two parts, and no part is of the same kind as the whole, which
/// makes the written form unique.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Expr {
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    Test(Predicate),
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
    Between {
        low: Literal,
        high: Literal,
        negated: bool,
    },
    In {
        values: Vec<Literal>,
        negated: bool,
    },
    /// Starts with `prefix`; if not `open`, equals it.
    Like {
        prefix: Box<str>,
        open: bool,
        negated: bool,
    },
    Null {
        negated: bool,
    },
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
