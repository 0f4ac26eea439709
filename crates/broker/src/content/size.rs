//! Estimates the memory of a subscription, in the index and elsewhere, from its key and its parsed content filter.
//!
//! The index has a row for each alternative, so a short filter with `OR` or `IN` may take hundreds of times the memory of
//! its text.

use crate::content::parse::Content;
use crate::content::path::path;
use crate::model::subscriptions::subscribers::Subscribers;
use crate::model::subscriptions::subscription_size::SubscriptionSize;
use crate::model::subscriptions::trie::Trie;

/// Approximate bytes of a subscription without its key.
const OWN: usize = 256;

/// Approximate bytes of a filter's tree and of its names and constants in the index, per byte of text.
const BYTES_PER_TEXT: usize = 16;

/// Approximate bytes of an index row without its conditions, and of a condition.
const ROW_BYTES: usize = 32;
const CONDITION_BYTES: usize = 20;

/// The size of a subscription with this key and this content filter.
pub(crate) fn size(key: &str, content: Option<&Content>) -> SubscriptionSize {
    let topic = path(key).map_or("", |path| path.filter);
    let levels = topic.split('/').count();
    let bytes = OWN + levels * Trie::<Subscribers>::LEVEL_BYTES + 4 * key.len();
    let Some(Content { filter, .. }) = content else {
        return SubscriptionSize::new(bytes, 0);
    };
    let (rows, conditions) = (filter.alternatives(), filter.conditions());
    let in_index = ROW_BYTES * rows + CONDITION_BYTES * conditions;
    let bytes = bytes + BYTES_PER_TEXT * (key.len() - topic.len()) + in_index;
    SubscriptionSize::new(bytes, conditions).computed(filter.is_computed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::parse::parse_key;

    fn of(key: &str) -> (usize, usize) {
        let own = size(key, parse_key(key).unwrap().content.as_ref());
        (own.bytes(), own.conditions())
    }

    #[test]
    fn alternatives_count() {
        for key in ["t", "a/+/#", "$share/g/t", "t?k=v\0$literal"] {
            assert_eq!(of(key).1, 0, "{key:?}");
        }
        for (key, all) in [
            ("t?k=v&sensor>5", 2),
            ("t\0\0inside = 1 AND origin > 5", 2),
            ("t\0\0k = 1 or l = 2 AND m = 3", 3),
            ("t\0$json\0k IN(1,2,3)", 3),
            ("$where/NOT (k = 1 AND l = 2)/t", 2),
            ("$where/k=1%20OR%20l=2/t", 2),
            ("$share/g/t\0\0a.b = 1 OR\u{a0}c = 2", 2),
        ] {
            let (bytes, conditions) = of(key);
            assert_eq!(conditions, all, "{key:?}");
            assert!(bytes >= of("t").0 + 10 * (key.len() - 10) + 20 * all, "{key:?}");
        }
        let either: Vec<_> = (0..8).map(|n| format!("(c{n} < 1 OR d{n} > 1)")).collect();
        let others: Vec<_> = (0..56).map(|n| format!("x{n} > 1")).collect();
        let key = format!("t\0\0{} AND {}", either.join(" AND "), others.join(" AND "));
        assert!(key.len() < 1000 && of(&key).1 == 256 * 64 && of(&key).0 > 256 * 64 * 20);
    }
}
