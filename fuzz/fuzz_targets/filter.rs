//! A filter that parses is printed so that it parses to the same, is within its bounds, and matches in an index
//! exactly when it matches by itself, or also otherwise if it has conditions that no index decides.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_matcher::{Filter, Index, Matches, Options, Value};

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let parsed = [Filter::parse(&text), Filter::parse_query(&text)];
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
        // The names in the initial corpus; one event with each kind of value.
        let names = ["a", "b", "c", "x"];
        for value in [
            Value::from(1),
            Value::from("a"),
            Value::from(true),
            Value::Untyped("1"),
            Value::Untyped(""),
        ] {
            for names in [&names[..], &names[..1], &names[..0]] {
                let event: Vec<_> = names.iter().map(|name| (*name, value)).collect();
                let mut matches = Matches::new();
                index.matches(&index.event(&event), &mut matches);
                let found = matches.subscriptions() == [subscription];
                let holds = filter.matches(&event);
                assert!(found || !holds, "{written} for {event:?}");
                assert!(found == holds || filter.is_computed(), "{written} for {event:?}");
            }
        }
        assert!(index.remove(subscription));
    }
});
