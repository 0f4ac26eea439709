//! Parses tokens to a tree by recursive descent, with one token of look-ahead, without backtracking, and with
//! a bounded depth.

use super::error::{ARITHMETIC, FilterError, Reason};
use super::expr::{Expr, Operator, Predicate, Test};
use super::token::{Placed, Token, tokens};
use crate::limits::{MAX_DEPTH, MAX_TEXT};
use crate::value::Literal;

/// Keywords; as names they must be quoted.
pub(crate) const KEYWORDS: [&str; 11] =
    ["AND", "BETWEEN", "ESCAPE", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE"];

/// Whether `word` is a keyword, in upper or lower case.
pub(crate) fn is_keyword(word: &str) -> bool {
    KEYWORDS.iter().any(|keyword| keyword.eq_ignore_ascii_case(word))
}

/// Parses `text` to a tree.
pub(crate) fn parse(text: &str) -> Result<Expr, FilterError> {
    if text.len() > MAX_TEXT {
        return Err(FilterError::new(1, Reason::Long));
    }
    let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0 };
    let expr = parser.any()?;
    match parser.peek() {
        Token::End => Ok(expr),
        _ => Err(parser.expected("AND, OR or the end")),
    }
}

/// Hints for what other languages have.
const FIELDS: &str =
    "a text is in single quotes; two attributes cannot be compared, so publish their difference";
const DOUBLED: &str = "equality has one =, as in a = 5";
const CONTAINS: &str = "there is no search within a text; LIKE 'prefix%' finds its beginning, or publish the part as an attribute";
/// Operators of other languages that search within a text.
const SEARCHES: [&str; 6] = ["CONTAINS", "ENDSWITH", "STARTSWITH", "MATCHES", "REGEXP", "RLIKE"];

struct Parser {
    tokens: Vec<Placed>,
    /// The index of the next token. It never moves past the last token, `End`.
    at: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].token
    }

    fn column(&self) -> usize {
        self.tokens[self.at].column
    }

    fn expected(&self, what: &'static str) -> FilterError {
        let found = self.peek().show();
        FilterError::new(self.column(), Reason::Expected { what, found })
    }

    fn hint(&self, hint: &'static str) -> FilterError {
        FilterError::new(self.column(), Reason::Hint(hint))
    }

    fn take(&mut self) -> Token {
        let end = self.at + 1 == self.tokens.len();
        let token = std::mem::replace(&mut self.tokens[self.at].token, Token::End);
        self.at += usize::from(!end);
        token
    }

    fn take_if(&mut self, wanted: &Token) -> bool {
        let is = self.peek() == wanted;
        if is {
            self.take();
        }
        is
    }

    fn take_word(&mut self, keyword: &str) -> bool {
        let is = matches!(self.peek(), Token::Word(word) if word.eq_ignore_ascii_case(keyword));
        if is {
            self.take();
        }
        is
    }

    fn word(&mut self, keyword: &str, what: &'static str) -> Result<(), FilterError> {
        if self.take_word(keyword) { Ok(()) } else { Err(self.expected(what)) }
    }

    /// `all OR all …`
    fn any(&mut self) -> Result<Expr, FilterError> {
        let mut parts = vec![self.all()?];
        while self.take_word("OR") {
            parts.push(self.all()?);
        }
        Ok(Expr::join(false, parts))
    }

    /// `one AND one …`
    fn all(&mut self) -> Result<Expr, FilterError> {
        let mut parts = vec![self.one()?];
        while self.take_word("AND") {
            parts.push(self.one()?);
        }
        Ok(Expr::join(true, parts))
    }

    /// `NOT one`, `( any )` or a predicate.
    fn one(&mut self) -> Result<Expr, FilterError> {
        let column = self.column();
        let is_negated = self.take_word("NOT");
        if !is_negated && !self.take_if(&Token::Open) {
            return Ok(Expr::Test(self.predicate()?));
        }
        if self.depth == MAX_DEPTH {
            return Err(FilterError::new(column, Reason::Deep));
        }
        self.depth += 1;
        let expr = match is_negated {
            true => Expr::Not(Box::new(self.one()?)),
            false => {
                let inner = self.any()?;
                if !self.take_if(&Token::Close) {
                    return Err(self.expected("AND, OR or `)`"));
                }
                inner
            }
        };
        self.depth -= 1;
        Ok(expr)
    }

    fn predicate(&mut self) -> Result<Predicate, FilterError> {
        let name = match self.peek() {
            Token::Word(word) if !is_keyword(word) => word.clone(),
            Token::Name(name) => name.clone(),
            _ => return Err(self.expected("the name of an attribute")),
        };
        self.take();
        let test = self.test()?;
        Ok(Predicate { name, test })
    }

    fn test(&mut self) -> Result<Test, FilterError> {
        if let Token::Operator(operator) = *self.peek() {
            self.take();
            let column = self.column();
            let value = self.literal()?;
            let ordered = !matches!(operator, Operator::Equal | Operator::Differs);
            if ordered && matches!(value, Literal::Boolean(_)) {
                return Err(FilterError::new(column, Reason::Unordered));
            }
            return Ok(Test::Compare(operator, value));
        }
        if self.take_word("IS") {
            let negated = self.take_word("NOT");
            self.word("NULL", "NULL")?;
            return Ok(Test::Null { negated });
        }
        let negated = self.take_word("NOT");
        if self.take_word("BETWEEN") {
            let low = self.ordered()?;
            self.word("AND", "AND")?;
            let column = self.column();
            let high = self.ordered()?;
            if std::mem::discriminant(&low) != std::mem::discriminant(&high) {
                let (what, found) = ("a bound of the same type as the first", high.to_string());
                return Err(FilterError::new(column, Reason::Expected { what, found }));
            }
            return Ok(Test::Between { low, high, negated });
        }
        if self.take_word("IN") {
            return self.list().map(|values| Test::In { values, negated });
        }
        if self.take_word("LIKE") {
            return self.pattern(negated);
        }
        match self.peek() {
            Token::Word(word) if SEARCHES.iter().any(|own| own.eq_ignore_ascii_case(word)) => {
                return Err(self.hint(CONTAINS));
            }
            // `a -5` and `a +b`
            Token::Number(_) => return Err(self.hint(ARITHMETIC)),
            _ => (),
        }
        Err(self.expected(match negated {
            true => "BETWEEN, IN or LIKE",
            false => "=, <>, <, <=, >, >=, BETWEEN, IN, LIKE or IS",
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

    fn literal(&mut self) -> Result<Literal, FilterError> {
        let literal = match self.peek() {
            Token::Number(number) => Literal::Number(*number),
            Token::String(text) => Literal::String(text.clone()),
            Token::Word(word) if word.eq_ignore_ascii_case("TRUE") => Literal::Boolean(true),
            Token::Word(word) if word.eq_ignore_ascii_case("FALSE") => Literal::Boolean(false),
            Token::Operator(Operator::Equal) => return Err(self.hint(DOUBLED)),
            Token::Word(word) if !is_keyword(word) => return Err(self.hint(FIELDS)),
            Token::Name(_) => return Err(self.hint(FIELDS)),
            _ => return Err(self.expected("a value like 5, 'text' or TRUE")),
        };
        self.take();
        Ok(literal)
    }

    fn ordered(&mut self) -> Result<Literal, FilterError> {
        let column = self.column();
        match self.literal()? {
            Literal::Boolean(_) => Err(FilterError::new(column, Reason::Unordered)),
            literal => Ok(literal),
        }
    }

    /// `'prefix%'`; with `ESCAPE '\'` the prefix may contain wildcard characters.
    fn pattern(&mut self, negated: bool) -> Result<Test, FilterError> {
        let column = self.column();
        let Token::String(text) = self.peek() else {
            return Err(self.expected("a pattern like 'prefix%'"));
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
        let mut prefix = String::with_capacity(text.len());
        let mut chars = text.chars();
        let mut open = false;
        while let Some(c) = chars.next() {
            if open {
                return Err(FilterError::new(column, Reason::Pattern));
            }
            if Some(c) == escape {
                match chars.next() {
                    Some(c) if Some(c) == escape || matches!(c, '%' | '_') => prefix.push(c),
                    _ => return Err(FilterError::new(column, Reason::Escape)),
                }
            } else if c == '_' {
                return Err(FilterError::new(column, Reason::Pattern));
            } else if c == '%' {
                open = true;
            } else {
                prefix.push(c);
            }
        }
        Ok(Test::Like { prefix: prefix.into(), open, negated })
    }
}
