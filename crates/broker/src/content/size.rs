//! The size of a subscription's content filter in the index, from the subscription's key.
//!
//! The index holds a row for each alternative, so a short filter with `OR` or `IN` may take hundreds of times the memory
//! of its text. Only those filters are parsed here.

use crate::content::parse::parse_key;
use crate::content::path::{has_content, path};

/// Approximate bytes of a filter's tree and of its names and constants in the index, per byte of text.
const BYTES_PER_TEXT: usize = 16;

/// Approximate bytes of a row in the index without its conditions, and of a condition.
const ROW_BYTES: usize = 32;
const CONDITION_BYTES: usize = 20;

/// Words of conditions with several alternatives.
const ALTERNATIVES: [&str; 3] = ["OR", "IN", "NOT"];

/// Approximate memory of the content filter of the subscription with this key, in bytes; 0 without one.
pub(crate) fn bytes(key: &str) -> usize {
    if !has_content(key) {
        return 0;
    }
    let topic = path(key).map_or(0, |path| path.filter.len());
    let (rows, conditions) = expansion(key);
    BYTES_PER_TEXT * (key.len() - topic) + ROW_BYTES * rows + CONDITION_BYTES * conditions
}

/// The number of conditions in all alternatives of the content filter of the subscription with this key; 0 if it has no
/// more than its text shows.
pub(crate) fn conditions(key: &str) -> usize {
    if has_content(key) { expansion(key).1 } else { 0 }
}

/// The numbers of rows and conditions of a filter with alternatives; 0 if it certainly has one alternative.
fn expansion(key: &str) -> (usize, usize) {
    // In `$where/` an escape may be part of a word.
    let is_alternative =
        |word: &str| ALTERNATIVES.iter().any(|other| word.eq_ignore_ascii_case(other));
    let mut words = key.split(|c: char| !c.is_alphanumeric());
    if !key.contains('%') && !words.any(is_alternative) {
        return (0, 0);
    }
    let content = parse_key(key).ok().and_then(|parsed| parsed.content);
    content.map_or((0, 0), |own| (own.filter.alternatives(), own.filter.conditions()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_count() {
        for key in ["t", "a/+/#", "$share/g/t", "t?k=v\0$literal"] {
            assert_eq!((bytes(key), conditions(key)), (0, 0), "{key:?}");
        }
        for (key, all) in [
            ("t?k=v&sensor>5", 0),
            ("t\0\0inside = 1 AND origin > 5", 0),
            ("t\0\0k = 1 or l = 2 AND m = 3", 3),
            ("t\0$json\0k IN(1,2,3)", 3),
            ("$where/NOT (k = 1 AND l = 2)/t", 2),
            ("$where/k=1%20OR%20l=2/t", 2),
            ("$share/g/t\0\0a.b = 1 OR\u{a0}c = 2", 2),
        ] {
            assert_eq!(conditions(key), all, "{key:?}");
            assert!(bytes(key) >= 10 * (key.len() - 10) + 20 * all, "{key:?}");
        }
        let either: Vec<_> = (0..8).map(|n| format!("(c{n} < 1 OR d{n} > 1)")).collect();
        let others: Vec<_> = (0..56).map(|n| format!("x{n} > 1")).collect();
        let key = format!("t\0\0{} AND {}", either.join(" AND "), others.join(" AND "));
        assert!(key.len() < 1000 && conditions(&key) == 256 * 64 && bytes(&key) > 256 * 64 * 20);
    }
}
