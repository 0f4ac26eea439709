//! Conditions that no index can decide. They agree with an evaluator that shares no code with the crate, parse back
//! from their written form, and an index finds a superset of the events that satisfy them.

use fastrand::Rng;
use phalanx_matcher::{Filter, Index, Matches, Options, Value};

/// A value of an event or of an operand: whole numbers and halves, which binary fractions hold exactly.
#[derive(Clone, Debug, PartialEq)]
enum Plain {
    Number(f64),
    Text(String),
}

type Event = Vec<(String, Plain)>;

/// A condition as text, and its truth for each event.
struct Sample {
    text: String,
    truths: Vec<Option<bool>>,
}

const TEXTS: [&str; 9] = ["", "a", "ab", "aba", "abab", "b", "bab", "it's", "üb"];

fn text(rng: &mut Rng) -> &'static str {
    TEXTS[rng.usize(..TEXTS.len())]
}

fn events(rng: &mut Rng) -> Vec<Event> {
    let event = |rng: &mut Rng| {
        let names = (0..4).filter(|_| rng.u8(..6) > 0).collect::<Vec<_>>();
        let value = |rng: &mut Rng| match rng.u8(..4) {
            0 => Plain::Text(text(rng).to_owned()),
            _ => Plain::Number(f64::from(rng.i32(-8..9)) / 2.0),
        };
        names.into_iter().map(|name| (format!("a{name}"), value(rng))).collect()
    };
    (0..12).map(|_| event(rng)).collect()
}

/// An operand, with its value for each event.
fn operand(depth: usize, events: &[Event], rng: &mut Rng) -> (String, Vec<Option<Plain>>) {
    match if depth == 0 { rng.u8(..3) } else { rng.u8(..6) } {
        0 => {
            let number = rng.i32(-6..7);
            (number.to_string(), vec![Some(Plain::Number(number.into())); events.len()])
        }
        1 | 2 => {
            let name = format!("a{}", rng.usize(..4));
            let of = |event: &Event| Some(event.iter().find(|(key, _)| *key == name)?.1.clone());
            (name.clone(), events.iter().map(of).collect())
        }
        choice => {
            let (left, lefts) = operand(depth - 1, events, rng);
            let (right, rights) = operand(depth - 1, events, rng);
            let number = |value: &Option<Plain>| match value {
                Some(Plain::Number(number)) => Some(*number),
                _ => None,
            };
            let sign = ["+", "-", "*"][usize::from(choice) - 3];
            let apply = |(left, right)| {
                let (left, right) = (number(left)?, number(right)?);
                Some(Plain::Number(match sign {
                    "+" => left + right,
                    "-" => left - right,
                    _ => left * right,
                }))
            };
            (format!("({left} {sign} {right})"), lefts.iter().zip(&rights).map(apply).collect())
        }
    }
}

fn comparison(events: &[Event], rng: &mut Rng) -> Sample {
    let ((left, lefts), (right, rights)) = (operand(2, events, rng), operand(2, events, rng));
    let operator = ["=", "<>", "<", "<=", ">", ">="][rng.usize(..6)];
    let compare = |(left, right): (&Option<Plain>, &Option<Plain>)| {
        let order = match (left.as_ref()?, right.as_ref()?) {
            (Plain::Number(left), Plain::Number(right)) => left.partial_cmp(right)?,
            (Plain::Text(left), Plain::Text(right)) => left.cmp(right),
            _ => return None,
        };
        Some(match operator {
            "=" => order.is_eq(),
            "<>" => order.is_ne(),
            "<" => order.is_lt(),
            "<=" => order.is_le(),
            ">" => order.is_gt(),
            _ => order.is_ge(),
        })
    };
    let truths = lefts.iter().zip(&rights).map(compare).collect();
    Sample { text: format!("{left} {operator} {right}"), truths }
}

/// Whether `text` has the pattern, determined by trying all places.
fn is_like(text: &str, pattern: &[&str]) -> bool {
    let Some((first, rest)) = pattern.split_first() else { return text.is_empty() };
    let Some(text) = text.strip_prefix(first) else { return false };
    let mut places = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    if rest.is_empty() { text.is_empty() } else { places.any(|at| is_like(&text[at..], rest)) }
}

fn search(events: &[Event], rng: &mut Rng) -> Sample {
    let name = format!("a{}", rng.usize(..4));
    let pieces: Vec<_> = (0..rng.usize(1..5)).map(|_| text(rng)).collect();
    let (operator, pieces) = match rng.bool() {
        true => (format!("CONTAINS '{}'", pieces[0].replace('\'', "''")), vec!["", pieces[0], ""]),
        false => (format!("LIKE '{}'", pieces.join("%").replace('\'', "''")), pieces),
    };
    let not = if rng.bool() { "NOT " } else { "" };
    let of = |event: &Event| match &event.iter().find(|(key, _)| *key == name)?.1 {
        Plain::Text(text) => Some(is_like(text, &pieces) == not.is_empty()),
        Plain::Number(_) => None,
    };
    Sample { text: format!("{name} {not}{operator}"), truths: events.iter().map(of).collect() }
}

fn condition(depth: usize, events: &[Event], rng: &mut Rng) -> Sample {
    let choice = if depth == 0 { rng.u8(..6) } else { rng.u8(..12) };
    match choice {
        0..3 => comparison(events, rng),
        3..6 => search(events, rng),
        6 => {
            let Sample { text, truths } = condition(depth - 1, events, rng);
            let truths = truths.into_iter().map(|truth| truth.map(|truth| !truth)).collect();
            Sample { text: format!("NOT ({text})"), truths }
        }
        _ => {
            let (left, right) =
                (condition(depth - 1, events, rng), condition(depth - 1, events, rng));
            let (word, decisive) = if choice < 10 { ("AND", false) } else { ("OR", true) };
            let join = |(left, right): (&Option<bool>, &Option<bool>)| match (*left, *right) {
                (Some(left), _) if left == decisive => Some(decisive),
                (_, Some(right)) if right == decisive => Some(decisive),
                (Some(_), Some(_)) => Some(!decisive),
                _ => None,
            };
            let truths = left.truths.iter().zip(&right.truths).map(join).collect();
            Sample { text: format!("({} {word} {})", left.text, right.text), truths }
        }
    }
}

#[test]
fn computed_conditions_agree_with_a_plain_evaluator() {
    let mut counts = [0; 2];
    for seed in 0..1500 {
        let rng = &mut Rng::with_seed(seed);
        let events = events(rng);
        let Sample { text, truths } = condition(3, &events, rng);
        let filter = match Filter::parse(&text) {
            Ok(filter) => filter,
            // Two constants, as in `1 + 1 = 2`, and limits.
            Err(_) => continue,
        };
        let written = filter.to_string();
        assert_eq!(Filter::parse(&written).expect(&written), filter, "seed {seed}: {text}");
        let mut index = Index::new(Options::default());
        let subscription = index.insert(&filter);
        let mut matches = Matches::new();
        for (event, truth) in events.iter().zip(&truths) {
            let texts: Vec<_> = event
                .iter()
                .map(|(_, value)| match value {
                    Plain::Number(number) => number.to_string(),
                    Plain::Text(text) => text.clone(),
                })
                .collect();
            let untyped = rng.bool();
            let value = |(at, (name, value)): (usize, &(String, Plain))| {
                let value = match value {
                    Plain::Number(_) if untyped => Value::Untyped(&texts[at]),
                    Plain::Number(number) => {
                        Value::Number(phalanx_matcher::Number::nearest(*number).unwrap())
                    }
                    // A number that the sender declares to be a text is a text.
                    Plain::Text(_) => Value::String(&texts[at]),
                };
                (name.clone(), value)
            };
            let own: Vec<_> = event.iter().enumerate().map(value).collect();
            let own: Vec<_> = own.iter().map(|(name, value)| (name.as_str(), *value)).collect();
            let holds = filter.matches(&own);
            if !untyped {
                assert_eq!(holds, *truth == Some(true), "seed {seed}: {text} for {event:?}");
            }
            counts[usize::from(holds)] += 1;
            matches.clear();
            index.matches(&index.event(&own), &mut matches);
            let found = matches.subscriptions() == [subscription];
            assert!(found || !holds, "seed {seed}: {text} for {event:?}");
            assert!(found == holds || filter.is_computed(), "seed {seed}: {text} for {event:?}");
        }
    }
    assert!(counts.iter().all(|count| *count > 1000), "{counts:?}");
}
