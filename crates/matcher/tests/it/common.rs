//! Random filters and events over a small world, so that matches are frequent. A seed always yields the same
//! ones, and failures print their seed.

#![allow(dead_code, reason = "each test uses a part")]

use fastrand::Rng;
use phalanx_matcher::{Number, Value};

/// The size of the world.
#[derive(Clone, Copy)]
pub(crate) struct World {
    /// Attributes `a0`, `a1`, …
    pub(crate) names: usize,
    /// Integers from 0, and the same number of strings.
    pub(crate) constants: i64,
    /// Nesting depth of parentheses and `NOT`s.
    pub(crate) depth: usize,
}

const STRINGS: [&str; 12] =
    ["", "a", "ab", "abc", "b", "ba", "it's", "ü", "üb", "true", "7", "50%_\\"];

/// The text of a literal of any type.
fn literal(world: World, rng: &mut Rng) -> String {
    match rng.u8(..10) {
        0 => ["TRUE", "false"][rng.usize(..2)].to_owned(),
        1..=3 => format!("'{}'", string(world, rng).replace('\'', "''")),
        _ => number(world, rng),
    }
}

fn string(world: World, rng: &mut Rng) -> String {
    match rng.bool() {
        true => STRINGS[rng.usize(..STRINGS.len())].to_owned(),
        false => format!("s{}", rng.i64(0..world.constants)),
    }
}

fn number(world: World, rng: &mut Rng) -> String {
    let whole = rng.i64(0..world.constants);
    match rng.u8(..12) {
        0 | 1 => format!("{whole}.5"),
        2 | 3 => format!("-{whole}"),
        // The neighbours of a whole number.
        4 => format!("{whole}.000000000000000001"),
        5 => format!("{}.999999999999999999", whole.max(1) - 1),
        _ => whole.to_string(),
    }
}

/// The text of a bound: a number or a string.
fn ordered(world: World, numbers: bool, rng: &mut Rng) -> String {
    match numbers {
        true => number(world, rng),
        false => format!("'{}'", string(world, rng).replace('\'', "''")),
    }
}

pub(crate) fn name(world: World, rng: &mut Rng) -> String {
    format!("a{}", rng.usize(..world.names))
}

/// The text of one predicate.
pub(crate) fn predicate(world: World, rng: &mut Rng) -> String {
    let name = name(world, rng);
    let not = ["", "", "NOT "][rng.usize(..3)];
    let numbers = rng.u8(..3) > 0;
    match rng.u8(..10) {
        0..=2 => format!("{name} = {}", literal(world, rng)),
        3 => format!("{name} <> {}", literal(world, rng)),
        4 | 5 => {
            let operator = ["<", "<=", ">", ">="][rng.usize(..4)];
            format!("{name} {operator} {}", ordered(world, numbers, rng))
        }
        6 => {
            let (low, high) = (ordered(world, numbers, rng), ordered(world, numbers, rng));
            format!("{name} {not}BETWEEN {low} AND {high}")
        }
        7 => {
            let values: Vec<_> = (0..rng.usize(1..5)).map(|_| literal(world, rng)).collect();
            format!("{name} {not}IN ({})", values.join(", "))
        }
        8 => {
            let prefix = ["", "a", "ab", "s", "s1", "it''s", "ü", "!%", "50!%!_"][rng.usize(..9)];
            let sign = ["%", "%", ""][rng.usize(..3)];
            format!("{name} {not}LIKE '{prefix}{sign}' ESCAPE '!'")
        }
        _ => format!("{name} IS {not}NULL"),
    }
}

/// The text of a whole filter.
pub(crate) fn filter(world: World, rng: &mut Rng) -> String {
    condition(world, world.depth, rng)
}

fn condition(world: World, depth: usize, rng: &mut Rng) -> String {
    let choice = if depth == 0 { 9 } else { rng.u8(..10) };
    let mut parts = |word: &str| {
        let parts: Vec<_> =
            (0..rng.usize(2..4)).map(|_| condition(world, depth - 1, rng)).collect();
        format!("({})", parts.join(word))
    };
    match choice {
        0..=3 => parts(" AND "),
        4..=5 => parts(" OR "),
        6 => format!("NOT {}", condition(world, depth - 1, rng)),
        _ => predicate(world, rng),
    }
}

/// An event as its sender creates it.
#[derive(Clone, Debug)]
pub(crate) enum Owned {
    Boolean(bool),
    Number(String),
    String(String),
    Untyped(String),
}

impl Owned {
    pub(crate) fn value(&self) -> Value<'_> {
        match self {
            Owned::Boolean(value) => Value::Boolean(*value),
            Owned::Number(text) => Value::Number(Number::parse(text).unwrap()),
            Owned::String(text) => Value::String(text),
            Owned::Untyped(text) => Value::Untyped(text),
        }
    }
}

/// Attributes of an event: some missing, some repeated, some in no filter.
pub(crate) fn event(world: World, rng: &mut Rng) -> Vec<(String, Owned)> {
    let mut event = Vec::new();
    for _ in 0..rng.usize(..=2 * world.names.min(40)) {
        let name = if rng.u8(..12) == 0 { "other".to_owned() } else { name(world, rng) };
        let value = match rng.u8(..9) {
            0 => Owned::Boolean(rng.bool()),
            1 | 2 => Owned::String(string(world, rng)),
            3 => Owned::Untyped(string(world, rng)),
            4 | 5 => Owned::Untyped(number(world, rng)),
            _ => Owned::Number(number(world, rng)),
        };
        event.push((name, value));
    }
    event
}

/// The event in the form that the matcher requires.
pub(crate) fn borrowed(event: &[(String, Owned)]) -> Vec<(&str, Value<'_>)> {
    event.iter().map(|(name, value)| (name.as_str(), value.value())).collect()
}
