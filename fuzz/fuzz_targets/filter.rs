//! A filter that parses is printed so that it parses to the same, is within its bounds, and matches in an index
//! exactly when it matches by itself, or also otherwise if it has conditions that no index decides.
//!
//! The values of the events are those in the filter, the neighbours of its numbers, and raw bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_matcher::{Filter, Index, Matches, Number, Options, Value};

/// Digits after the point, and the representation of 1: a number is an integer count of 10⁻¹⁸.
const PLACES: usize = 18;
const ONE: i128 = 10i128.pow(PLACES as u32);

/// Maximum number of values that the events carry.
const MAX_VALUES: usize = 16;

/// The numbers next to `number`.
fn neighbours(number: Number) -> impl Iterator<Item = Number> {
    let text = number.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let count: i128 = format!("{whole}{fraction:0<PLACES$}").parse().expect("digits");
    [count - 1, count + 1].into_iter().filter_map(|count| {
        let sign = if count < 0 { "-" } else { "" };
        let (whole, fraction) = (count.abs() / ONE, count.abs() % ONE);
        Number::parse(&format!("{sign}{whole}.{fraction:018}")).ok()
    })
}

/// The values that the text of a filter names.
fn named(text: &str) -> (Vec<Number>, Vec<&str>) {
    let words = text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '.' | '+' | '-')));
    let numbers: Vec<_> =
        words.filter_map(|word| Number::parse(word).ok()).take(MAX_VALUES / 4).collect();
    let near: Vec<_> = numbers.iter().flat_map(|number| neighbours(*number)).collect();
    let texts = text.split(['\'', '=', '&']).take(MAX_VALUES).collect();
    (numbers.into_iter().chain(near).collect(), texts)
}

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let parsed = [Filter::parse(&text), Filter::parse_query(&text)];
    let (numbers, texts) = named(&text);
    let fixed = [1.into(), "a".into(), true.into(), Value::Untyped("1"), Value::Untyped("")];
    let values: Vec<Value<'_>> = fixed
        .into_iter()
        .chain(numbers.iter().map(|number| Value::Number(*number)))
        .chain(texts.iter().flat_map(|text| [Value::String(text), Value::Untyped(text)]))
        .chain([Value::Untyped(&text)])
        .collect();
    for filter in parsed {
        let filter = match filter {
            Ok(filter) => filter,
            Err(error) => {
                assert!((1..=text.chars().count() + 1).contains(&error.column()), "{error}");
                continue;
            }
        };
        assert!(filter.alternatives() <= Filter::MAX_ALTERNATIVES);
        let written = filter.to_string();
        if written.len() <= Filter::MAX_TEXT {
            assert_eq!(Filter::parse(&written).expect(&written), filter, "{written}");
        }
        let mut index = Index::new(Options::default());
        let subscription = index.insert(&filter);
        // The names in the initial corpus.
        let names = ["a", "b", "c", "x"];
        for (at, value) in values.iter().enumerate() {
            let other = values[(at + 1) % values.len()];
            for names in [&names[..], &names[..1], &names[..0]] {
                // All attributes have this value, or the first two have different ones.
                for second in [*value, other] {
                    let of = |at| if at == 1 { second } else { *value };
                    let event: Vec<_> =
                        names.iter().enumerate().map(|(at, name)| (*name, of(at))).collect();
                    let mut matches = Matches::new();
                    index.matches(&index.event(&event), &mut matches);
                    let found = matches.subscriptions() == [subscription];
                    let holds = filter.matches(&event);
                    assert!(found || !holds, "{written} for {event:?}");
                    assert!(found == holds || filter.is_computed(), "{written} for {event:?}");
                }
            }
        }
        assert!(index.remove(subscription));
    }
});
