//! A parsed filter: the condition that events must satisfy.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::condition::Alternatives;
use crate::language::error::{FilterError, Reason};
use crate::language::evaluate::evaluate;
use crate::language::expr::Expr;
use crate::language::{parse, query};
use crate::limits;
use crate::normal;
use crate::value::Value;

/// A condition on events, parsed from a text.
///
/// The language is a subset of SQL's conditions: `=`, `<>` (or `!=`), `<`, `<=`, `>`, `>=`, `BETWEEN`, `IN`, `LIKE`
/// with the wildcard `%`, `CONTAINS 'part'`, `IS NULL`, joined by `AND`, `OR`, `NOT` and parentheses. Both sides of a
/// comparison may contain attributes and arithmetic (`+`, `-`, `*`, `/`). Names are case-sensitive, keywords are not. A
/// name that is a keyword, or that contains characters other than letters, digits, `_`, `$` and `.`, must be in double
/// quotes.
///
/// A missing attribute is `NULL`: every comparison with it is unknown, and so is its `NOT`. An event matches
/// if the whole condition is true.
///
/// Clones share their memory.
///
/// ```
/// use phalanx_matcher::{Filter, Value};
///
/// let filter = Filter::parse("symbol = 'ACME' AND price BETWEEN 10 AND 12.5")?;
/// let price = Value::Untyped("12.50");
/// assert!(filter.matches(&[("symbol", "ACME".into()), ("price", price)]));
/// assert!(!filter.matches(&[("symbol", "ACME".into())]));
/// assert_eq!(filter.to_string(), "symbol = 'ACME' AND price BETWEEN 10 AND 12.5");
///
/// let wrong = Filter::parse("price > 'a' AND").unwrap_err();
/// assert_eq!(wrong.column(), 16);
/// assert_eq!(wrong.to_string(), "column 16: expected an attribute or a value like 5, 'text' or TRUE, found the end");
/// # Ok::<(), phalanx_matcher::FilterError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Filter {
    expr: Arc<Expr>,
    alternatives: Arc<Alternatives>,
    is_computed: bool,
}

impl Filter {
    /// Maximum length of the text in bytes.
    pub const MAX_TEXT: usize = limits::MAX_TEXT;
    /// Maximum nesting depth of parentheses and `NOT`s.
    pub const MAX_DEPTH: usize = limits::MAX_DEPTH;
    /// Maximum number of conjunctions of a filter, which has one for each way to satisfy its `OR`s and `IN`s. The index
    /// stores each of them.
    pub const MAX_ALTERNATIVES: usize = limits::MAX_ALTERNATIVES;
    /// Maximum number of conditions in a conjunction.
    pub const MAX_CONDITIONS: usize = limits::MAX_CONDITIONS;
    /// Maximum number of conditions that [no index can decide](Filter::is_computed).
    pub const MAX_COMPUTED: usize = limits::MAX_COMPUTED;
    /// Maximum number of arithmetic operators.
    pub const MAX_OPERATORS: usize = limits::MAX_OPERATORS;
    /// Maximum length in bytes of a text that `CONTAINS`, or `LIKE` with more than a prefix, searches. Such a condition
    /// treats a longer text as missing.
    pub const MAX_SEARCHED: usize = limits::MAX_SEARCHED;

    /// Parses a filter. The work is bounded: it is linear in the length of the text and in the number of conjunctions
    /// times the square of their length.
    ///
    /// # Errors
    ///
    /// If the text is not in the language or exceeds a limit; the error names the column.
    pub fn parse(text: &str) -> Result<Filter, FilterError> {
        Filter::new(parse::parse(text)?)
    }

    /// Parses the query that follows a topic: conditions `name=value`, with `=`, `!=`, `<`, `<=`, `>` or
    /// `>=`, joined by `&`. A value that is written as a number or as `true` or `false` has that type; any
    /// other value is a string. A value in single quotes is a string too and may contain any character. An
    /// unquoted value that looks like another condition is an error.
    ///
    /// ```
    /// use phalanx_matcher::Filter;
    ///
    /// let filter = Filter::parse_query("room=A&value>=25&unit='°|C'")?;
    /// assert_eq!(filter, Filter::parse("room = 'A' AND value >= 25 AND unit = '°|C'")?);
    /// assert!(Filter::parse_query("room==A").is_err() && Filter::parse_query("a=1|b=2").is_err());
    /// # Ok::<(), phalanx_matcher::FilterError>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`parse`](Filter::parse).
    pub fn parse_query(text: &str) -> Result<Filter, FilterError> {
        Filter::new(query::parse(text)?)
    }

    fn new(expr: Expr) -> Result<Filter, FilterError> {
        // The limits concern the whole text, not one place in it.
        let error = |reason| FilterError::new(1, reason);
        let alternatives = normal::alternatives(&expr).map_err(error)?;
        let computed = expr.computed();
        if computed > limits::MAX_COMPUTED {
            return Err(error(Reason::Computed));
        }
        let (expr, alternatives) = (Arc::new(expr), Arc::new(alternatives));
        Ok(Filter { expr, alternatives, is_computed: computed > 0 })
    }

    /// Whether an event with these attributes satisfies this filter. If a name has several values, the last one counts.
    ///
    /// This evaluates a single filter. For many filters, use an [`Index`](crate::Index).
    #[must_use]
    pub fn matches(&self, attributes: &[(&str, Value<'_>)]) -> bool {
        let look_up = |name: &str| {
            attributes.iter().rev().find(|(other, _)| *other == name).map(|(_, value)| *value)
        };
        self.matches_by(&look_up)
    }

    /// Like [`matches`](Filter::matches), but for an event whose attributes `look_up` finds by name.
    #[must_use]
    pub fn matches_by<'a>(&'a self, look_up: &dyn Fn(&str) -> Option<Value<'a>>) -> bool {
        evaluate(&self.expr, look_up) == Some(true)
    }

    /// The part that [`matches`](Filter::matches) needs, without the conjunctions that an index needs.
    #[must_use]
    pub fn evaluator(&self) -> Evaluator {
        Evaluator(Arc::clone(&self.expr))
    }

    /// Whether the filter has conditions that no index can decide: arithmetic, comparisons of two attributes,
    /// `CONTAINS`, and `LIKE` with more than a prefix. An [`Index`](crate::Index) then finds candidates by the other
    /// conditions and the presence of the attributes, and the caller decides with [`matches`](Filter::matches).
    ///
    /// ```
    /// use phalanx_matcher::Filter;
    ///
    /// let filter = Filter::parse("symbol = 'ACME' AND price * quantity > 10000 AND note CONTAINS 'late'")?;
    /// assert!(filter.is_computed());
    /// # Ok::<(), phalanx_matcher::FilterError>(())
    /// ```
    #[must_use]
    pub fn is_computed(&self) -> bool {
        self.is_computed
    }

    /// The number of conjunctions, without those that cannot be satisfied.
    #[must_use]
    pub fn alternatives(&self) -> usize {
        self.alternatives.len()
    }

    /// The number of conditions in all conjunctions together, at most [`MAX_ALTERNATIVES`](Filter::MAX_ALTERNATIVES)
    /// times [`MAX_CONDITIONS`](Filter::MAX_CONDITIONS). The work of adding the filter to an index and the memory
    /// there grow with it.
    #[must_use]
    pub fn conditions(&self) -> usize {
        self.alternatives.conjunctions.iter().map(|conjunction| conjunction.len()).sum()
    }

    pub(crate) fn conjunctions(&self) -> &Alternatives {
        &self.alternatives
    }
}

/// The part of a [`Filter`] that decides about the candidates that an [`Index`](crate::Index) has found.
#[derive(Clone, Debug)]
pub struct Evaluator(Arc<Expr>);

impl Evaluator {
    /// Like [`Filter::matches_by`].
    #[must_use]
    pub fn matches_by<'a>(&'a self, look_up: &dyn Fn(&str) -> Option<Value<'a>>) -> bool {
        evaluate(&self.0, look_up) == Some(true)
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Filter, FilterError> {
        Filter::parse(text)
    }
}

/// Writes a text that parses to the same filter, unless it is longer than [`MAX_TEXT`](Filter::MAX_TEXT): it may
/// contain more quotes and spaces than the original text.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.expr)
    }
}
