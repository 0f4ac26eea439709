//! Disjunctive normal form: from an expression tree to alternative conjunctions of plain conditions.
//!
//! `NOT` is pushed down to the predicates. Three-valued logic allows this, because a comparison and its
//! opposite are both unknown for a missing value. Each predicate then becomes one of five plain conditions,
//! and conditions on the same attribute are merged or found to be contradictory.
//!
//! A condition that the index cannot decide is replaced by conditions that it implies: its attributes are present and
//! have the right type. The conjunctions are then necessary but not sufficient, so the filter has to be evaluated as
//! well.
//!
//! Names and conditions are numbered, so that combining conjunctions copies and compares numbers.

use std::collections::{BTreeMap, BTreeSet};

use crate::condition::{Alternatives, Condition, Plain};
use crate::constant::{Constant, Cut, Kind, Range};
use crate::language::error::Reason;
use crate::language::expr::{Comparison, Expr, Operator, Predicate, Test};
use crate::limits::{MAX_ALTERNATIVES, MAX_CONDITIONS, MAX_TEXT};
use crate::value::Literal;

/// The numbers of a conjunction's conditions.
type Numbers = Vec<u16>;

// A filter's text has fewer conditions than bytes.
const _: () = assert!(MAX_TEXT + MAX_ALTERNATIVES * MAX_CONDITIONS < u16::MAX as usize);

/// The conjunctions equivalent to `expr`.
pub(crate) fn alternatives(expr: &Expr) -> Result<Alternatives, Reason> {
    let mut parts = Parts::default();
    let expanded = parts.expand(expr, false)?;
    let Parts { names, conditions } = parts;
    let (mut simplified, mut seen) = (Pool::default(), BTreeSet::new());
    let (mut conjunctions, is_single) = (Vec::new(), expanded.len() == 1);
    for conjunction in expanded {
        let all = conjunction.iter().map(|at| &conditions.all[usize::from(*at)]);
        let Some(simple) = simplify(all) else { continue };
        let simple = simple.into_iter().map(|condition| simplified.number(condition));
        let simple: Box<[u16]> = simple.collect();
        if is_single || seen.insert(simple.clone()) {
            conjunctions.push(simple);
        }
    }
    Ok(Alternatives { names: names.all, conditions: simplified.all, conjunctions })
}

/// Numbered values, each stored under one number.
struct Pool<T> {
    all: Vec<T>,
    /// The numbers by value, if there are too many values to search one by one.
    numbers: BTreeMap<T, u16>,
}

/// Maximum number of values that are searched one by one; most filters have fewer.
const MAX_SEARCHED_VALUES: usize = 16;

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Pool { all: Vec::new(), numbers: BTreeMap::new() }
    }
}

impl<T: Clone + Ord> Pool<T> {
    fn number(&mut self, value: T) -> u16 {
        let number = match self.numbers.is_empty() {
            true => self.all.iter().position(|other| *other == value).map(|at| at as u16),
            false => self.numbers.get(&value).copied(),
        };
        if let Some(number) = number {
            return number;
        }
        self.all.push(value);
        if self.all.len() > MAX_SEARCHED_VALUES {
            let from = self.numbers.len();
            self.numbers.extend(self.all[from..].iter().cloned().zip(from as u16..));
        }
        self.all.len() as u16 - 1
    }
}

/// The parts of a filter.
#[derive(Default)]
struct Parts {
    names: Pool<Box<str>>,
    conditions: Pool<Condition>,
}

fn bounded(alternatives: usize) -> Result<(), Reason> {
    if alternatives > MAX_ALTERNATIVES { Err(Reason::Wide) } else { Ok(()) }
}

impl Parts {
    fn expand(&mut self, expr: &Expr, negated: bool) -> Result<Vec<Numbers>, Reason> {
        match (expr, negated) {
            (Expr::Not(inner), _) => self.expand(inner, !negated),
            (Expr::And(parts), false) | (Expr::Or(parts), true) => self.product(parts, negated),
            (Expr::And(parts), true) | (Expr::Or(parts), false) => {
                let mut all = Vec::new();
                for part in parts {
                    all.extend(self.expand(part, negated)?);
                    bounded(all.len())?;
                }
                Ok(all)
            }
            (Expr::Test(predicate), _) => self.plain(predicate, negated),
            (Expr::Compare(comparison), _) => self.implied(comparison).map(|all| vec![all]),
        }
    }

    /// All combinations of one alternative from each part.
    fn product(&mut self, parts: &[Expr], negated: bool) -> Result<Vec<Numbers>, Reason> {
        let mut all = vec![Numbers::new()];
        for part in parts {
            let choices = self.expand(part, negated)?;
            bounded(all.len() * choices.len())?;
            let mut next = Vec::with_capacity(all.len() * choices.len());
            for head in &all {
                for tail in &choices {
                    if head.len() + tail.len() > MAX_CONDITIONS {
                        return Err(Reason::Conditions);
                    }
                    next.push([head.as_slice(), tail].concat());
                }
            }
            all = next;
        }
        Ok(all)
    }

    fn condition(&mut self, name: &str, plain: Plain) -> u16 {
        let name = self.names.number(name.into());
        self.conditions.number(Condition { name, plain })
    }

    /// The conjunctions of a predicate, or of its opposite.
    fn plain(&mut self, predicate: &Predicate, negated: bool) -> Result<Vec<Numbers>, Reason> {
        let Predicate { name, test } = predicate;
        if let Test::In { values, negated: not } = test {
            let is_any = *not == negated;
            let numbers = values.iter().map(|value| self.condition(name, equal(value, is_any)));
            if is_any {
                bounded(values.len())?;
                return Ok(numbers.map(|number| vec![number]).collect());
            }
            if values.len() > MAX_CONDITIONS {
                return Err(Reason::Conditions);
            }
            return Ok(vec![numbers.collect()]);
        }
        let plain = one_plain(test, negated);
        Ok(plain.map(|plain| vec![self.condition(name, plain)]).into_iter().collect())
    }

    /// The conditions that a comparison and its opposite both imply: the attributes are present, and are numbers if the
    /// comparison contains arithmetic.
    fn implied(&mut self, comparison: &Comparison) -> Result<Numbers, Reason> {
        let Comparison { left, right, .. } = comparison;
        let plain = match left.is_computed() || right.is_computed() {
            true => Plain::Inside(Range { kind: Kind::Number, low: None, high: None }),
            false => Plain::Present(true),
        };
        let mut all = Numbers::new();
        let mut add = |name: &str| {
            let number = self.condition(name, plain.clone());
            if !all.contains(&number) {
                all.push(number);
            }
        };
        left.names(&mut add);
        right.names(&mut add);
        if all.len() > MAX_CONDITIONS { Err(Reason::Conditions) } else { Ok(all) }
    }
}

fn equal(literal: &Literal, is: bool) -> Plain {
    let constant = Constant::from(literal);
    if is { Plain::Equal(constant) } else { Plain::Differs(constant) }
}

/// The condition of a test other than a list, or of its opposite; `None` if nothing satisfies it.
fn one_plain(test: &Test, negated: bool) -> Option<Plain> {
    let inside = |range: Range, is: bool| match is {
        true => Some(Plain::Inside(range)),
        false => range.outside(),
    };
    match test {
        Test::Null { negated: not } => Some(Plain::Present(*not != negated)),
        Test::Compare(Operator::Equal, literal) => Some(equal(literal, !negated)),
        Test::Compare(Operator::Differs, literal) => Some(equal(literal, negated)),
        Test::Compare(operator, literal) => {
            let at = Constant::from(literal);
            let after = matches!(operator, Operator::Greater | Operator::AtMost);
            let above = matches!(operator, Operator::Greater | Operator::AtLeast);
            inside(Range::half(Cut { at, after }, above), !negated)
        }
        Test::Between { low, high, negated: not } => {
            let low = Cut { at: low.into(), after: false };
            let high = Cut { at: high.into(), after: true };
            inside(Range::between(low, high), *not == negated)
        }
        Test::In { .. } => unreachable!("a list has several conditions"),
        Test::Like { pattern, negated: not } if pattern.is_text() => {
            Some(equal(&Literal::String(pattern.prefix().into()), *not == negated))
        }
        Test::Like { pattern, negated: not } if pattern.is_searched() => {
            let prefix = if *not == negated { pattern.prefix() } else { "" };
            inside(Range::prefix(prefix), true)
        }
        Test::Like { pattern, negated: not } => {
            inside(Range::prefix(pattern.prefix()), *not == negated)
        }
    }
}

/// The conjunction without redundant conditions; `None` if it cannot be satisfied.
fn simplify<'c>(conjunction: impl Iterator<Item = &'c Condition>) -> Option<Vec<Condition>> {
    let mut simple = Vec::with_capacity(conjunction.size_hint().0);
    for condition in conjunction {
        add(&mut simple, condition.clone())?;
    }
    Some(simple)
}

fn add(simple: &mut Vec<Condition>, new: Condition) -> Option<()> {
    let mut at = 0;
    let mut plain = new.plain;
    if matches!(&plain, Plain::Inside(range) if range.is_empty()) {
        return None;
    }
    while at < simple.len() {
        if simple[at].name != new.name {
            at += 1;
            continue;
        }
        match merge(&simple[at].plain, &plain)? {
            Merged::Both => at += 1,
            Merged::Old => return Some(()),
            Merged::One(one) => {
                // The merged condition may now meet earlier ones.
                plain = one;
                simple.remove(at);
                at = 0;
            }
        }
    }
    simple.push(Condition { name: new.name, plain });
    Some(())
}

enum Merged {
    Both,
    Old,
    One(Plain),
}

/// Merges two conditions on one attribute; `None` if they contradict each other.
fn merge(old: &Plain, new: &Plain) -> Option<Merged> {
    if old == new {
        return Some(Merged::Old);
    }
    let kept = |kept: &Plain| Merged::One(kept.clone());
    match (old, new) {
        (Plain::Present(false), _) | (_, Plain::Present(false)) => None,
        (Plain::Present(true), other) => Some(kept(other)),
        (_, Plain::Present(true)) => Some(Merged::Old),
        (Plain::Equal(constant), other) => match other.holds(constant) {
            None => Some(Merged::Both),
            Some(holds) => holds.then_some(Merged::Old),
        },
        (other, Plain::Equal(constant)) => match other.holds(constant) {
            None => Some(Merged::Both),
            Some(holds) => holds.then(|| kept(new)),
        },
        (Plain::Inside(a), Plain::Inside(b)) if a.kind == b.kind => {
            let both = a.intersection(b);
            (!both.is_empty()).then_some(Merged::One(Plain::Inside(both)))
        }
        _ => Some(Merged::Both),
    }
}

impl Plain {
    /// Whether the condition holds for an attribute with this constant; `None` if it tests another type.
    fn holds(&self, constant: &Constant) -> Option<bool> {
        match self {
            Plain::Present(present) => Some(*present),
            Plain::Equal(other) => (other.kind() == constant.kind()).then(|| other == constant),
            Plain::Differs(other) => (other.kind() == constant.kind()).then(|| other != constant),
            Plain::Inside(range) => {
                (range.kind == constant.kind()).then(|| range.contains(constant))
            }
            Plain::Outside(range) => {
                (range.kind == constant.kind()).then(|| !range.contains(constant))
            }
        }
    }
}
