//! The lexer: splits the text of a filter into tokens, in one pass.

use super::error::{FilterError, Reason, clipped};
use super::expr::Operator;
use super::name::{begins_name, is_keyword, within_name};
use super::operand::Sign;
use crate::number::Number;

/// A token and the column of its first character.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LocatedToken {
    pub(crate) token: Token,
    pub(crate) column: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    /// An unquoted name or keyword.
    Word(Box<str>),
    /// A name in double quotes, which is never a keyword.
    Name(Box<str>),
    String(Box<str>),
    Number(Number),
    Operator(Operator),
    Sign(Sign),
    Open,
    Close,
    Comma,
    End,
}

impl Token {
    /// The token as error messages show it.
    pub(crate) fn show(&self) -> String {
        match self {
            Token::Word(text) => clipped(text, "`"),
            Token::Name(text) => clipped(text, "\""),
            Token::String(text) => clipped(text, "'"),
            Token::Number(number) => format!("`{number}`"),
            Token::Operator(operator) => format!("`{}`", operator.text()),
            Token::Sign(sign) => format!("`{}`", sign.text()),
            Token::Open => "`(`".to_owned(),
            Token::Close => "`)`".to_owned(),
            Token::Comma => "`,`".to_owned(),
            Token::End => "the end".to_owned(),
        }
    }
}

impl Token {
    /// Whether an operand ends with this token, so that a sign after it is an operator.
    fn ends_operand(&self) -> bool {
        match self {
            Token::Word(word) => !is_keyword(word),
            Token::Name(_) | Token::String(_) | Token::Number(_) | Token::Close => true,
            _ => false,
        }
    }
}

/// The hint for an SQL comment, whose `--` would otherwise be two minus signs.
const COMMENT: &str = "comments are not supported; separate two minus signs with a space";

/// Splits `text` into tokens. Only the last one is `End`.
pub(crate) fn tokens(text: &str) -> Result<Vec<LocatedToken>, FilterError> {
    let mut lexer = Lexer { rest: text, column: 1 };
    let mut tokens = Vec::new();
    loop {
        lexer.take_while(char::is_whitespace);
        let column = lexer.column;
        let follows = tokens.last().is_some_and(|last: &LocatedToken| last.token.ends_operand());
        let token = lexer.next(column, follows)?;
        let end = token == Token::End;
        tokens.push(LocatedToken { token, column });
        if end {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    rest: &'a str,
    column: usize,
}

impl<'a> Lexer<'a> {
    fn bump(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        self.column += 1;
        Some(c)
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !wanted(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        self.column += taken.chars().count();
        taken
    }

    /// The next token; a sign is an operator if it `follows` an operand, or if no number follows the sign.
    fn next(&mut self, column: usize, follows: bool) -> Result<Token, FilterError> {
        let Some(c) = self.rest.chars().next() else { return Ok(Token::End) };
        if begins_name(c) {
            return Ok(Token::Word(self.take_while(within_name).into()));
        }
        let is_signed = matches!(c, '+' | '-')
            && !follows
            && self.rest[1..].starts_with(|next: char| next.is_ascii_digit() || next == '.');
        if c.is_ascii_digit() || c == '.' || is_signed {
            return self.number(column);
        }
        self.bump();
        let then = |lexer: &mut Self, wanted| {
            let is = lexer.rest.starts_with(wanted);
            if is {
                lexer.bump();
            }
            is
        };
        Ok(match c {
            '(' => Token::Open,
            ')' => Token::Close,
            ',' => Token::Comma,
            '=' => Token::Operator(Operator::Equal),
            '<' if then(self, '>') => Token::Operator(Operator::Differs),
            '<' if then(self, '=') => Token::Operator(Operator::AtMost),
            '<' => Token::Operator(Operator::Less),
            '>' if then(self, '=') => Token::Operator(Operator::AtLeast),
            '>' => Token::Operator(Operator::Greater),
            '!' if then(self, '=') => Token::Operator(Operator::Differs),
            '\'' => Token::String(self.quoted('\'', column, "string")?),
            '"' => Token::Name(self.quoted('"', column, "quoted name")?),
            '+' => Token::Sign(Sign::Plus),
            '-' if self.rest.starts_with('-') => {
                return Err(FilterError::new(column, Reason::Hint(COMMENT)));
            }
            '-' => Token::Sign(Sign::Minus),
            '*' => Token::Sign(Sign::Times),
            '/' => Token::Sign(Sign::Over),
            other => return Err(FilterError::new(column, Reason::Character(other))),
        })
    }

    /// Reads up to the closing quote; a doubled quote stands for one quote character.
    fn quoted(
        &mut self,
        quote: char,
        column: usize,
        opened: &'static str,
    ) -> Result<Box<str>, FilterError> {
        let mut text = String::new();
        loop {
            match self.bump() {
                None => return Err(FilterError::new(column, Reason::Open(opened))),
                Some(c) if c == quote => {
                    if !self.rest.starts_with(quote) {
                        return Ok(text.into());
                    }
                    self.bump();
                    text.push(quote);
                }
                Some(c) => text.push(c),
            }
        }
    }

    fn number(&mut self, column: usize) -> Result<Token, FilterError> {
        let mut before = ' ';
        let end = self
            .rest
            .find(|c: char| {
                let sign = matches!(c, '+' | '-') && matches!(before, ' ' | 'e' | 'E');
                before = c;
                !(sign || c.is_alphanumeric() || matches!(c, '.' | '_'))
            })
            .unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        self.column += text.chars().count();
        let wrong = |error| FilterError::new(column, Reason::Number(error));
        Number::parse(text).map(Token::Number).map_err(wrong)
    }
}
