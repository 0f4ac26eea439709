//! Parsing operands, and turning their comparisons into conditions.

use super::error::{FilterError, Reason};
use super::expr::{Comparison, Expr, Operator, Predicate, Test};
use super::name::is_keyword;
use super::operand::{Computed, Operand, Sign};
use super::parse::Parser;
use super::token::Token;
use crate::limits::MAX_OPERATORS;
use crate::number::Number;
use crate::value::Literal;

const NUMBERS: &str = "arithmetic needs numbers; put texts in single quotes, but not attributes";
const RESULT: &str = "arithmetic yields a number, so compare it with a number or an attribute";
const CONSTANT: &str = "both sides are constants; an attribute has no quotes, or double quotes";
const UNCOMPUTABLE: &str =
    "the constants cannot be computed: division by zero, or more than 20 digits before the point";

impl Parser {
    /// `product + product …`
    pub(super) fn sum(&mut self) -> Result<Operand, FilterError> {
        let first = self.factor()?;
        self.sum_after(first)
    }

    /// The rest of a sum after its first factor.
    pub(super) fn sum_after(&mut self, first: Operand) -> Result<Operand, FilterError> {
        let mut sum = self.product_after(first)?;
        while let Some((sign, column)) = self.sign(false)? {
            let first = self.factor()?;
            let right = self.product_after(first)?;
            sum = computed(sum, sign, right, column)?;
        }
        Ok(sum)
    }

    fn product_after(&mut self, first: Operand) -> Result<Operand, FilterError> {
        let mut product = first;
        while let Some((sign, column)) = self.sign(true)? {
            let right = self.factor()?;
            product = computed(product, sign, right, column)?;
        }
        Ok(product)
    }

    /// The next operator if it is one of a product (`tight`) or of a sum, and its column.
    fn sign(&mut self, tight: bool) -> Result<Option<(Sign, usize)>, FilterError> {
        let Token::Sign(sign) = *self.peek() else { return Ok(None) };
        if sign.is_tight() != tight {
            return Ok(None);
        }
        let column = self.column();
        self.count_operators(1, column)?;
        self.take();
        Ok(Some((sign, column)))
    }

    pub(super) fn count_operators(
        &mut self,
        more: usize,
        column: usize,
    ) -> Result<(), FilterError> {
        self.operators += more;
        if self.operators > MAX_OPERATORS {
            return Err(FilterError::new(column, Reason::Operators));
        }
        Ok(())
    }

    /// A constant, an attribute, `-factor`, or a sum in parentheses.
    pub(super) fn factor(&mut self) -> Result<Operand, FilterError> {
        let column = self.column();
        let operand = match self.peek() {
            Token::Number(number) => Operand::Literal(Literal::Number(*number)),
            Token::String(text) => Operand::Literal(Literal::String(text.clone())),
            Token::Word(word) if word.eq_ignore_ascii_case("TRUE") => {
                Operand::Literal(Literal::Boolean(true))
            }
            Token::Word(word) if word.eq_ignore_ascii_case("FALSE") => {
                Operand::Literal(Literal::Boolean(false))
            }
            Token::Word(word) if !is_keyword(word) => Operand::Attribute(word.clone()),
            Token::Name(name) => Operand::Attribute(name.clone()),
            Token::Sign(Sign::Minus) => {
                self.count_operators(1, column)?;
                self.take();
                let right = self.deeper(column, Self::factor)?;
                let zero = Operand::Literal(Literal::Number(Number::from(0)));
                return computed(zero, Sign::Minus, right, column);
            }
            Token::Open => {
                self.take();
                let sum = self.deeper(column, Self::sum)?;
                return match self.take_if(&Token::Close) {
                    true => Ok(sum),
                    false => Err(self.expected("an operator or `)`")),
                };
            }
            _ => return Err(self.expected("an attribute or a value like 5, 'text' or TRUE")),
        };
        self.take();
        Ok(operand)
    }
}

/// Applies an operator, which is at `column`. An operation on constants is computed immediately.
fn computed(
    left: Operand,
    sign: Sign,
    right: Operand,
    column: usize,
) -> Result<Operand, FilterError> {
    let hint = |hint| Err(FilterError::new(column, Reason::Hint(hint)));
    match (&left, &right) {
        (Operand::Literal(Literal::Number(left)), Operand::Literal(Literal::Number(right))) => {
            match sign.apply(*left, *right) {
                Some(number) => Ok(Operand::Literal(Literal::Number(number))),
                None => hint(UNCOMPUTABLE),
            }
        }
        (Operand::Literal(Literal::Boolean(_) | Literal::String(_)), _)
        | (_, Operand::Literal(Literal::Boolean(_) | Literal::String(_))) => hint(NUMBERS),
        _ => Ok(Operand::Computed(Box::new(Computed { left, sign, right }))),
    }
}

/// The condition that compares two operands, each with its column.
pub(super) fn compared(
    (left, left_column): (Operand, usize),
    operator: Operator,
    (right, right_column): (Operand, usize),
) -> Result<Expr, FilterError> {
    let hint = |column, hint| Err(FilterError::new(column, Reason::Hint(hint)));
    let (name, operator, literal, column) = match (left, right) {
        (Operand::Literal(_), Operand::Literal(_)) => return hint(left_column, CONSTANT),
        (Operand::Attribute(name), Operand::Literal(literal)) => {
            (name, operator, literal, right_column)
        }
        (Operand::Literal(literal), Operand::Attribute(name)) => {
            (name, operator.flipped(), literal, left_column)
        }
        (Operand::Literal(Literal::Boolean(_) | Literal::String(_)), _) => {
            return hint(left_column, RESULT);
        }
        (_, Operand::Literal(Literal::Boolean(_) | Literal::String(_))) => {
            return hint(right_column, RESULT);
        }
        (left, right) => return Ok(Expr::Compare(Comparison { left, operator, right })),
    };
    if operator.is_ordered() && matches!(literal, Literal::Boolean(_)) {
        return Err(FilterError::new(column, Reason::Unordered));
    }
    Ok(Expr::Test(Predicate { name, test: Test::Compare(operator, literal) }))
}
