//! Disjunctive normal form: from an expression tree to alternative conjunctions of plain conditions.
//!
//! `NOT` is pushed down to the predicates. Three-valued logic allows this, because a comparison and its
//! opposite are both unknown for a missing value. Each predicate then becomes one of five plain conditions,
//! and conditions on the same attribute are merged or found to be contradictory.
//!
//! A condition that the index cannot decide becomes those that it implies: its attributes are present and have
//! the right type. The conjunctions are then necessary, and the filter has to be evaluated as well.

use crate::condition::{Condition, Conjunction, Plain};
use crate::constant::{Constant, Cut, Kind, Range};
use crate::language::error::Reason;
use crate::language::expr::{Comparison, Expr, Operator, Predicate, Test};
use crate::limits::{MAX_ALTERNATIVES, MAX_CONDITIONS};
use crate::value::Literal;

/// The conjunctions equivalent to `expr`.
pub(crate) fn alternatives(expr: &Expr) -> Result<Vec<Conjunction>, Reason> {
    let mut all = Vec::new();
    for conjunction in expand(expr, false)? {
        if let Some(simple) = simplify(conjunction)
            && !all.contains(&simple)
        {
            all.push(simple);
        }
    }
    Ok(all)
}

fn expand(expr: &Expr, negated: bool) -> Result<Vec<Conjunction>, Reason> {
    match (expr, negated) {
        (Expr::Not(inner), _) => expand(inner, !negated),
        (Expr::And(parts), false) | (Expr::Or(parts), true) => product(parts, negated),
        (Expr::And(parts), true) | (Expr::Or(parts), false) => {
            let mut all = Vec::new();
            for part in parts {
                all.extend(expand(part, negated)?);
                bounded(all.len())?;
            }
            Ok(all)
        }
        (Expr::Test(predicate), _) => plain(predicate, negated),
        (Expr::Compare(comparison), _) => implied(comparison).map(|all| vec![all]),
    }
}

fn bounded(alternatives: usize) -> Result<(), Reason> {
    if alternatives > MAX_ALTERNATIVES { Err(Reason::Wide) } else { Ok(()) }
}

/// All combinations of one alternative from each part.
fn product(parts: &[Expr], negated: bool) -> Result<Vec<Conjunction>, Reason> {
    let mut all: Vec<Conjunction> = vec![Vec::new()];
    for part in parts {
        let choices = expand(part, negated)?;
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

/// The conjunctions of a predicate, or of its opposite.
fn plain(predicate: &Predicate, negated: bool) -> Result<Vec<Conjunction>, Reason> {
    let condition = |plain| Condition { name: predicate.name.clone(), plain };
    let equal = |literal: &Literal, is: bool| {
        let constant = Constant::from(literal);
        condition(if is { Plain::Equal(constant) } else { Plain::Differs(constant) })
    };
    let inside = |range: Range, is: bool| match is {
        true => Some(condition(Plain::Inside(range))),
        false => range.outside().map(condition),
    };
    let one = |condition: Option<Condition>| Ok(condition.map(|c| vec![c]).into_iter().collect());
    match &predicate.test {
        Test::Null { negated: not } => one(Some(condition(Plain::Present(*not != negated)))),
        Test::Compare(Operator::Equal, literal) => one(Some(equal(literal, !negated))),
        Test::Compare(Operator::Differs, literal) => one(Some(equal(literal, negated))),
        Test::Compare(operator, literal) => {
            let at = Constant::from(literal);
            let after = matches!(operator, Operator::Greater | Operator::AtMost);
            let above = matches!(operator, Operator::Greater | Operator::AtLeast);
            one(inside(Range::half(Cut { at, after }, above), !negated))
        }
        Test::Between { low, high, negated: not } => {
            let low = Cut { at: low.into(), after: false };
            let high = Cut { at: high.into(), after: true };
            one(inside(Range::between(low, high), *not == negated))
        }
        Test::In { values, negated: not } if *not == negated => {
            bounded(values.len())?;
            Ok(values.iter().map(|value| vec![equal(value, true)]).collect())
        }
        Test::In { values, .. } => {
            if values.len() > MAX_CONDITIONS {
                return Err(Reason::Conditions);
            }
            Ok(vec![values.iter().map(|value| equal(value, false)).collect()])
        }
        Test::Like { pattern, negated: not } if pattern.is_text() => {
            one(Some(equal(&Literal::String(pattern.prefix().into()), *not == negated)))
        }
        Test::Like { pattern, negated: not } if pattern.is_searched() => {
            let prefix = if *not == negated { pattern.prefix() } else { "" };
            one(inside(Range::prefix(prefix), true))
        }
        Test::Like { pattern, negated: not } => {
            one(inside(Range::prefix(pattern.prefix()), *not == negated))
        }
    }
}

/// The conditions that a comparison and its opposite imply: their attributes are present, and numbers if the comparison
/// computes.
fn implied(Comparison { left, right, .. }: &Comparison) -> Result<Conjunction, Reason> {
    let plain = match left.is_computed() || right.is_computed() {
        true => Plain::Inside(Range { kind: Kind::Number, low: None, high: None }),
        false => Plain::Present(true),
    };
    let mut all = Conjunction::new();
    let mut add = |name: &str| {
        if !all.iter().any(|known| *known.name == *name) {
            all.push(Condition { name: name.into(), plain: plain.clone() });
        }
    };
    left.names(&mut add);
    right.names(&mut add);
    if all.len() > MAX_CONDITIONS { Err(Reason::Conditions) } else { Ok(all) }
}

/// The conjunctions with one additional equality, without those that contradict it.
pub(crate) fn with_equal(all: &[Conjunction], name: &str, literal: &Literal) -> Vec<Conjunction> {
    let mut with = Vec::with_capacity(all.len());
    for conjunction in all {
        let equal = Condition { name: name.into(), plain: Plain::Equal(Constant::from(literal)) };
        let mut longer = Vec::with_capacity(conjunction.len() + 1);
        longer.push(equal);
        let added = conjunction.iter().try_for_each(|own| add(&mut longer, own.clone()));
        if added.is_some() && !with.contains(&longer) {
            with.push(longer);
        }
    }
    with
}

/// The conjunction without redundant conditions; `None` if it cannot be satisfied.
fn simplify(conjunction: Conjunction) -> Option<Conjunction> {
    let mut simple: Conjunction = Vec::with_capacity(conjunction.len());
    for condition in conjunction {
        add(&mut simple, condition)?;
    }
    Some(simple)
}

fn add(simple: &mut Conjunction, new: Condition) -> Option<()> {
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
