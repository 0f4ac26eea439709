use std::fmt::Write as _;

use proptest::collection::{hash_map, vec};
use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::*;

/// The names and values of a payload's fields.
fn shown(payload: &str) -> Vec<String> {
    let shown = fields(payload.as_bytes()).into_iter().map(|(name, field)| match field {
        Field::Boolean(value) => format!("{name}={value}"),
        Field::Number(value) => format!("{name}={value}"),
        Field::String(value) => format!("{name}='{value}'"),
        Field::Missing => format!("{name}?"),
    });
    shown.collect()
}

#[test]
fn nested_fields_have_paths() {
    let payload = r#"{"a": 1, "b": {"c": "x", "d": {"e": true}, "f": [1, {"h": 2}], "g": null}, "b.c": 2, "h": {}}"#;
    let expected = ["a=1", "b?", "b.c='x'", "b.d?", "b.d.e=true", "b.f?", "b.g?", "b.c=2", "h?"];
    assert_eq!(shown(payload), expected);
    assert!(shown(r#"{"a": {"b": 1}} x"#).is_empty() && shown("[{\"a\": 1}]").is_empty());
    assert_eq!(
        shown(r#"{"": {"a": 1, "": {"b": 2}}, "c": 3}"#),
        ["?", ".a=1", ".?", "..b=2", "c=3"]
    );
}

#[test]
fn nested_fields_are_bounded() {
    let present = |payload: &str| {
        let mut all = shown(payload);
        all.retain(|field| !field.ends_with('?'));
        all
    };
    let deep =
        |levels: usize| format!("{}1{}", "{\"a\":".repeat(levels + 1), "}".repeat(levels + 1));
    assert_eq!(present(&deep(MAX_DEPTH)), [format!("a{}=1", ".a".repeat(MAX_DEPTH))]);
    assert!(present(&deep(MAX_DEPTH + 1)).is_empty() && present(&deep(100_000)).is_empty());
    // Fields after a deeply nested one have names again.
    let behind = format!("{},\"b\":2}}", deep(MAX_DEPTH + 1).strip_suffix('}').unwrap());
    assert_eq!(present(&behind), ["b=2"]);
    let many: Vec<_> = (0..2 * MAX_NESTED).map(|n| format!("\"{n}\":{n}")).collect();
    let many = many.join(",");
    assert_eq!(present(&format!("{{\"a\":{{{many}}}}}")).len(), MAX_NESTED);
    assert_eq!(present(&format!("{{{many}}}")).len(), 2 * MAX_NESTED, "not nested");
    let long = "l".repeat(MAX_PATH_BYTES);
    assert_eq!(
        present(&format!("{{\"{long}\":{{\"a\":1}},\"b\":{{\"{long}\":1,\"c\":2}}}}")),
        ["b.c=2"]
    );
}

#[test]
fn numbers_are_exact_as_far_as_possible() {
    let number = |digits: &str| shown(&format!("{{\"n\":{digits}}}")).join("");
    for (digits, means) in [
        ("12345678901234567890.123456789012345678", "12345678901234567890.123456789012345678"),
        ("-1.50e2", "-150"),
        // More digits than a number can hold.
        ("0.0000012345678901234567", "0.000001234567890123"),
        ("-12345678901234567890.9876543210987654321", "-12345678901234567890.987654321098765432"),
        ("1.2345678901234561e-6", "0.000001234567890123"),
        ("1e-300", "0"),
        ("1e300", "99999999999999999999.999999999999999999"),
        ("-100000000000000000000", "-99999999999999999999.999999999999999999"),
    ] {
        assert_eq!(number(digits), format!("n={means}"), "{digits}");
    }
}

#[test]
fn an_unpaired_surrogate_hides_one_field() {
    let payload = r#"{"a":1,"a":"\ud800","b":"\udc00x","\ud800\ud800":2,"c":"\ud83e\udd80","\u0064":"\n\u00e9"}"#;
    assert_eq!(shown(payload), ["a=1", "a?", "b?", "c='🦀'", "d='\né'"]);
}

/// A value without numbers, which this reader represents differently.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 30, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            hash_map("[a-c.\"\\\\é]{0,2}", inner, 0..5)
                .prop_map(|all| Value::Object(all.into_iter().collect())),
        ]
    })
}

/// The fields of an object, sorted.
fn expected(path: &str, value: &Value, all: &mut Vec<String>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let name = format!("{path}{name}");
        all.push(match value {
            Value::Bool(value) => format!("{name}={value}"),
            Value::Number(value) => format!("{name}={value}"),
            Value::String(value) => format!("{name}='{value}'"),
            Value::Null | Value::Array(_) | Value::Object(_) => format!("{name}?"),
        });
        expected(&format!("{name}."), value, all);
    }
}

/// Whether the text is an object.
fn is_read(text: &str) -> bool {
    Fields::default().read(Reader::new(text)).is_some()
}

proptest! {
    #[test]
    fn the_fields_are_those_of_another_reader(object in hash_map("[a-c]{0,2}", value(), 0..5), pretty: bool) {
        let object = Value::Object(object.into_iter().collect());
        let text = if pretty { format!("{object:#}") } else { object.to_string() };
        let (mut own, mut all) = (shown(&text), Vec::new());
        expected("", &object, &mut all);
        own.sort_unstable();
        all.sort_unstable();
        prop_assert_eq!(own, all);
    }

    /// Corrupted text is accepted exactly if another JSON parser accepts it.
    #[test]
    fn the_same_texts_are_objects(
        object in hash_map("[a-c]{0,2}", value(), 0..4),
        changes in vec((any::<prop::sample::Index>(), 0usize..2, "[{}\\[\\]:,\"\\\\u0-9dDeE+.tfn \n\u{1}é-]{0,3}"), 1..3),
    ) {
        let mut text: Vec<char> =
            Value::Object(object.into_iter().collect()).to_string().chars().collect();
        for (at, removed, inserted) in changes {
            let at = at.index(text.len() + 1);
            let end = (at + removed).min(text.len());
            text.splice(at..end, inserted.chars());
        }
        let mut own = String::new();
        text.iter().for_each(|character| own.write_char(*character).unwrap());
        let is_object = own.trim_start_matches([' ', '\n']).starts_with('{')
            && serde_json::from_str::<IgnoredAny>(&own).is_ok();
        prop_assert_eq!(is_read(&own), is_object, "{}", own);
    }
}
