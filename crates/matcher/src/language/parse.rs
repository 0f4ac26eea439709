//! A recursive-descent parser from tokens to a tree, with one token of look-ahead, no backtracking and a bounded depth.

use super::error::{FilterError, Reason, clipped};
use super::expr::{Expr, Operator, Predicate, Test};
use super::name::is_keyword;
use super::operand::Operand;
use super::operands::compared;
use super::pattern::Pattern;
use super::token::{LocatedToken, Token, tokens};
use crate::limits::{MAX_DEPTH, MAX_TEXT};
use crate::value::Literal;

/// Parses `text` to a tree.
pub(crate) fn parse(text: &str) -> Result<Expr, FilterError> {
    if text.len() > MAX_TEXT {
        return Err(FilterError::new(1, Reason::Long));
    }
    let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0, operators: 0 };
    let expr = parser.any()?;
    match parser.peek() {
        Token::End => Ok(expr),
        _ => Err(parser.expected("AND, OR or the end")),
    }
}

/// Hints for constructs of other languages.
const DOUBLED: &str = "equality is written with one =, as in a = 5";
const SEARCH: &str = "LIKE 'start%', LIKE '%end' and CONTAINS 'part' search in a text; there are no regular expressions";
/// Operators of other languages that search within a text.
const SEARCHES: [&str; 6] = ["ENDSWITH", "STARTSWITH", "MATCHES", "REGEXP", "RLIKE", "ILIKE"];
const ONLY_COMPARED: &str =
    "only =, <>, <, <=, >, >= and BETWEEN apply to a computed value or a constant";

/// A condition or an operand: an opening parenthesis may begin either.
enum Unit {
    Condition(Expr),
    /// An operand, and the column where it begins.
    Operand(Operand, usize),
}

pub(super) struct Parser {
    tokens: Vec<LocatedToken>,
    /// The index of the next token. It never moves past the last token, `End`.
    at: usize,
    depth: usize,
    /// The number of arithmetic operators so far.
    pub(super) operators: usize,
}

impl Parser {
    pub(super) fn peek(&self) -> &Token {
        &self.tokens[self.at].token
    }

    pub(super) fn column(&self) -> usize {
        self.tokens[self.at].column
    }

    pub(super) fn expected(&self, expected: &'static str) -> FilterError {
        let found = self.peek().show();
        FilterError::new(self.column(), Reason::Expected { expected, found })
    }

    pub(super) fn hint(&self, hint: &'static str) -> FilterError {
        FilterError::new(self.column(), Reason::Hint(hint))
    }

    pub(super) fn take(&mut self) -> Token {
        let end = self.at + 1 == self.tokens.len();
        let token = std::mem::replace(&mut self.tokens[self.at].token, Token::End);
        self.at += usize::from(!end);
        token
    }

    pub(super) fn take_if(&mut self, wanted: &Token) -> bool {
        let is = self.peek() == wanted;
        if is {
            self.take();
        }
        is
    }

    pub(super) fn take_word(&mut self, keyword: &str) -> bool {
        let is = matches!(self.peek(), Token::Word(word) if word.eq_ignore_ascii_case(keyword));
        if is {
            self.take();
        }
        is
    }

    fn word(&mut self, keyword: &str, expected: &'static str) -> Result<(), FilterError> {
        if self.take_word(keyword) { Ok(()) } else { Err(self.expected(expected)) }
    }

    /// `all OR all …`
    fn any(&mut self) -> Result<Expr, FilterError> {
        let first = self.one()?;
        self.any_after(first)
    }

    /// The rest of `all OR all …` after its first condition.
    fn any_after(&mut self, first: Expr) -> Result<Expr, FilterError> {
        let mut parts = vec![self.all_after(first)?];
        while self.take_word("OR") {
            let first = self.one()?;
            parts.push(self.all_after(first)?);
        }
        Ok(Expr::join(false, parts))
    }

    /// The rest of `one AND one …` after its first condition.
    fn all_after(&mut self, first: Expr) -> Result<Expr, FilterError> {
        let mut parts = vec![first];
        while self.take_word("AND") {
            parts.push(self.one()?);
        }
        Ok(Expr::join(true, parts))
    }

    /// `NOT one`, `( any )` or a test.
    fn one(&mut self) -> Result<Expr, FilterError> {
        match self.unit()? {
            Unit::Condition(expr) => Ok(expr),
            Unit::Operand(first, column) => {
                let left = self.sum_after(first)?;
                self.test(left, column)
            }
        }
    }

    /// `NOT one`, or something in parentheses, or an operand without operators.
    fn unit(&mut self) -> Result<Unit, FilterError> {
        let column = self.column();
        if self.take_word("NOT") {
            let inner = self.deeper(column, Self::one)?;
            return Ok(Unit::Condition(Expr::Not(Box::new(inner))));
        }
        if self.take_if(&Token::Open) {
            return self.deeper(column, Self::inside);
        }
        self.factor().map(|operand| Unit::Operand(operand, column))
    }

    /// Parses with `inner`, one level deeper.
    pub(super) fn deeper<T>(
        &mut self,
        column: usize,
        inner: impl FnOnce(&mut Self) -> Result<T, FilterError>,
    ) -> Result<T, FilterError> {
        if self.depth == MAX_DEPTH {
            return Err(FilterError::new(column, Reason::Deep));
        }
        self.depth += 1;
        let parsed = inner(self)?;
        self.depth -= 1;
        Ok(parsed)
    }

    /// Parses a condition or an operand up to the closing parenthesis.
    fn inside(&mut self) -> Result<Unit, FilterError> {
        let first = match self.unit()? {
            Unit::Condition(expr) => expr,
            Unit::Operand(first, column) => {
                let left = self.sum_after(first)?;
                if self.take_if(&Token::Close) {
                    return Ok(Unit::Operand(left, column));
                }
                self.test(left, column)?
            }
        };
        let expr = self.any_after(first)?;
        match self.take_if(&Token::Close) {
            true => Ok(Unit::Condition(expr)),
            false => Err(self.expected("AND, OR or `)`")),
        }
    }

    /// The test of an operand that began at `column`.
    fn test(&mut self, left: Operand, column: usize) -> Result<Expr, FilterError> {
        if let Token::Operator(operator) = *self.peek() {
            self.take();
            if let Token::Operator(Operator::Equal) = self.peek() {
                return Err(self.hint(DOUBLED));
            }
            let at = self.column();
            let right = self.sum()?;
            return compared((left, column), operator, (right, at));
        }
        let negated = matches!(self.peek(), Token::Word(word) if word.eq_ignore_ascii_case("NOT"));
        if negated {
            self.take();
        }
        if self.take_word("BETWEEN") {
            return self.between((left, column), negated);
        }
        let name = match left {
            Operand::Attribute(name) => name,
            Operand::Computed(_) | Operand::Literal(_) => {
                return Err(match self.peek() {
                    Token::Word(word) if is_keyword(word) => self.hint(ONLY_COMPARED),
                    _ => self.expected("=, <>, <, <=, >, >= or BETWEEN"),
                });
            }
        };
        let test = self.named_test(negated)?;
        Ok(Expr::Test(Predicate { name, test }))
    }

    /// `left BETWEEN low AND high`, where `left` began at `begin`.
    fn between(
        &mut self,
        (left, begin): (Operand, usize),
        negated: bool,
    ) -> Result<Expr, FilterError> {
        let at = self.column();
        let low = self.sum()?;
        self.word("AND", "AND")?;
        let column = self.column();
        let high = self.sum()?;
        for (bound, column) in [(&low, at), (&high, column)] {
            if matches!(bound, Operand::Literal(Literal::Boolean(_))) {
                return Err(FilterError::new(column, Reason::Unordered));
            }
        }
        if let (Operand::Attribute(_), Operand::Literal(low), Operand::Literal(high)) =
            (&left, &low, &high)
        {
            if std::mem::discriminant(low) != std::mem::discriminant(high) {
                let expected = "a bound of the same type as the first";
                let found = match high {
                    Literal::String(text) => clipped(text, "'"),
                    _ => high.to_string(),
                };
                return Err(FilterError::new(column, Reason::Expected { expected, found }));
            }
            let (low, high) = (low.clone(), high.clone());
            let Operand::Attribute(name) = left else { unreachable!("matched above") };
            let test = Test::Between { low, high, negated };
            return Ok(Expr::Test(Predicate { name, test }));
        }
        // Two comparisons, which are written with one more level and with the operators of `left` twice.
        self.count_operators(left.operators(), at)?;
        let (above, below) = match negated {
            false => (Operator::AtLeast, Operator::AtMost),
            true => (Operator::Less, Operator::Greater),
        };
        self.deeper(at, |_| {
            let above = compared((left.clone(), begin), above, (low, at))?;
            let below = compared((left, begin), below, (high, column))?;
            Ok(Expr::join(!negated, vec![above, below]))
        })
    }

    /// The test of an attribute after its name and `NOT`, without comparisons.
    fn named_test(&mut self, negated: bool) -> Result<Test, FilterError> {
        if !negated && self.take_word("IS") {
            let negated = self.take_word("NOT");
            self.word("NULL", "NULL")?;
            return Ok(Test::Null { negated });
        }
        if self.take_word("IN") {
            return self.list().map(|values| Test::In { values, negated });
        }
        if self.take_word("LIKE") {
            return self.pattern().map(|pattern| Test::Like { pattern, negated });
        }
        if self.take_word("CONTAINS") {
            let Token::String(part) = self.peek() else {
                return Err(self.expected("a text like 'part'"));
            };
            let pattern = Pattern::contains(part.clone());
            self.take();
            return Ok(Test::Like { pattern, negated });
        }
        if let Token::Word(word) = self.peek()
            && SEARCHES.iter().any(|known| known.eq_ignore_ascii_case(word))
        {
            return Err(self.hint(SEARCH));
        }
        Err(self.expected(match negated {
            true => "BETWEEN, IN, LIKE or CONTAINS",
            false => "=, <>, <, <=, >, >=, BETWEEN, IN, LIKE, CONTAINS or IS",
        }))
    }

    fn list(&mut self) -> Result<Vec<Literal>, FilterError> {
        if !self.take_if(&Token::Open) {
            return Err(self.expected("`(`"));
        }
        let mut values = vec![self.literal()?];
        while self.take_if(&Token::Comma) {
            values.push(self.literal()?);
        }
        if !self.take_if(&Token::Close) {
            return Err(self.expected("`,` or `)`"));
        }
        Ok(values)
    }

    /// A constant in a list.
    fn literal(&mut self) -> Result<Literal, FilterError> {
        let found = self.expected("a value like 5, 'text' or TRUE");
        match self.factor() {
            Ok(Operand::Literal(literal)) => Ok(literal),
            _ => Err(found),
        }
    }

    /// `'start%'`; with `ESCAPE '\'` the texts may contain wildcard characters.
    fn pattern(&mut self) -> Result<Pattern, FilterError> {
        let column = self.column();
        let Token::String(text) = self.peek() else {
            return Err(self.expected("a pattern like 'start%'"));
        };
        let text = text.clone();
        self.take();
        let mut escape = None;
        if self.take_word("ESCAPE") {
            let column = self.column();
            let Token::String(text) = self.take() else {
                return Err(FilterError::new(column, Reason::Escape));
            };
            let mut all = text.chars();
            escape = all.next();
            if escape.is_none() || all.next().is_some() {
                return Err(FilterError::new(column, Reason::Escape));
            }
        }
        let (mut pieces, mut piece) = (Vec::new(), String::new());
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            if Some(c) == escape {
                match chars.next() {
                    Some(c) if Some(c) == escape || matches!(c, '%' | '_') => piece.push(c),
                    _ => return Err(FilterError::new(column, Reason::Escape)),
                }
            } else if c == '_' {
                return Err(FilterError::new(column, Reason::Pattern));
            } else if c == '%' {
                pieces.push(std::mem::take(&mut piece).into());
            } else {
                piece.push(c);
            }
        }
        pieces.push(piece.into());
        Ok(Pattern::new(pieces))
    }
}
