//! Operands of a comparison: constants, attributes, and expressions of them.

use std::fmt;

use super::name::Name;
use crate::number::Number;
use crate::value::{Literal, Value};

/// An operand. The literals within a computed one are numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Operand {
    Literal(Literal),
    Attribute(Box<str>),
    Computed(Box<Computed>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Computed {
    pub(crate) left: Operand,
    pub(crate) sign: Sign,
    pub(crate) right: Operand,
}

/// An arithmetic operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Sign {
    Plus,
    Minus,
    Times,
    Over,
}

impl Sign {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Sign::Plus => "+",
            Sign::Minus => "-",
            Sign::Times => "*",
            Sign::Over => "/",
        }
    }

    /// Whether the operator binds more tightly than `+` and `-`.
    pub(crate) fn is_tight(self) -> bool {
        matches!(self, Sign::Times | Sign::Over)
    }

    /// The result; `None` beyond the range of numbers, and for a division by zero.
    pub(crate) fn apply(self, left: Number, right: Number) -> Option<Number> {
        match self {
            Sign::Plus => left.plus(right),
            Sign::Minus => left.minus(right),
            Sign::Times => left.times(right),
            Sign::Over => left.divided_by(right),
        }
    }
}

impl Operand {
    /// The value for an event; `None` if it is missing or cannot be computed.
    pub(crate) fn value<'e>(
        &'e self,
        look_up: &dyn Fn(&str) -> Option<Value<'e>>,
    ) -> Option<Value<'e>> {
        match self {
            Operand::Literal(Literal::Boolean(value)) => Some(Value::Boolean(*value)),
            Operand::Literal(Literal::Number(value)) => Some(Value::Number(*value)),
            Operand::Literal(Literal::String(value)) => Some(Value::String(value)),
            Operand::Attribute(name) => look_up(name),
            Operand::Computed(computed) => {
                let Computed { left, sign, right } = &**computed;
                let (left, right) =
                    (left.value(look_up)?.number()?, right.value(look_up)?.number()?);
                sign.apply(left, right).map(Value::Number)
            }
        }
    }

    /// Calls `found` for each attribute.
    pub(crate) fn names<'o>(&'o self, found: &mut impl FnMut(&'o str)) {
        match self {
            Operand::Literal(_) => (),
            Operand::Attribute(name) => found(name),
            Operand::Computed(computed) => {
                computed.left.names(found);
                computed.right.names(found);
            }
        }
    }

    /// The number of arithmetic operators.
    pub(crate) fn operators(&self) -> usize {
        match self {
            Operand::Computed(computed) => {
                1 + computed.left.operators() + computed.right.operators()
            }
            Operand::Literal(_) | Operand::Attribute(_) => 0,
        }
    }

    pub(crate) fn is_computed(&self) -> bool {
        matches!(self, Operand::Computed(_))
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let computed = match self {
            Operand::Literal(literal) => return write!(f, "{literal}"),
            Operand::Attribute(name) => return write!(f, "{}", Name(name)),
            Operand::Computed(computed) => computed,
        };
        let Computed { left, sign, right } = &**computed;
        match left {
            Operand::Computed(inner) if sign.is_tight() && !inner.sign.is_tight() => {
                write!(f, "({left})")?;
            }
            _ => write!(f, "{left}")?,
        }
        write!(f, " {} ", sign.text())?;
        match right {
            Operand::Computed(inner) if sign.is_tight() || !inner.sign.is_tight() => {
                write!(f, "({right})")
            }
            _ => write!(f, "{right}"),
        }
    }
}
