//! Topics that match a filter, in their order, from any topic on.

use std::collections::BTreeMap;
use std::ops::Bound;

use phalanx_mqtt::topic;

/// Values by topic.
pub(super) type Topics<T> = BTreeMap<Box<str>, T>;

/// The consequence of a topic for the scan.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// The topic matches.
    Matches,
    /// The next one may match.
    Next,
    /// None before this one matches.
    Seek(String),
    /// No further one matches.
    End,
}

/// The result of a scan.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Scanned<'t> {
    /// The last examined topic, if there may be more.
    pub(crate) last: Option<&'t str>,
    /// The number of examined topics.
    pub(crate) examined: usize,
}

/// Calls `found` for the topics that match `filter`, in their order, behind topic `after`. Examines up to `most` topics,
/// and at least one, and ends early if `found` returns false.
pub(super) fn scan<'t, T>(
    topics: &'t Topics<T>,
    filter: &str,
    after: Option<&str>,
    most: usize,
    mut found: impl FnMut(&'t T) -> bool,
) -> Scanned<'t> {
    let first = Bound::Included(literals(filter));
    let first = after.filter(|after| *after >= literals(filter)).map_or(first, Bound::Excluded);
    let mut rest = topics.range::<str, _>((first, Bound::Unbounded));
    let mut examined = 0;
    while let Some((topic, value)) = rest.next() {
        examined += 1;
        let goes_on = match step(filter, topic) {
            Step::Matches => found(value),
            Step::Next => true,
            Step::Seek(target) => {
                let target = Bound::Included(&*target);
                rest = topics.range::<str, _>((target, Bound::Unbounded));
                true
            }
            Step::End => break,
        };
        if examined >= most || !goes_on {
            return Scanned { last: Some(topic), examined };
        }
    }
    Scanned { last: None, examined }
}

/// The levels of a filter before the first wildcard.
fn literals(filter: &str) -> &str {
    let wildcard = filter.find(['+', '#']).unwrap_or(filter.len());
    filter[..wildcard].trim_end_matches('/')
}

/// Compares a topic with a filter. Topics are in the order of their bytes, in which other characters precede `/`: between
/// `a` and `a/b` is `a-b`.
fn step(filter: &str, topic: &str) -> Step {
    if topic::matches(filter, topic) {
        return Step::Matches;
    }
    if filter.starts_with(['+', '#']) && topic.starts_with('$') {
        return Step::Seek("%".into());
    }
    // The end of the last level that `+` has matched. With another level there, the others may match too.
    let (mut at, mut wild) = (0, None);
    let others = |wild: Option<usize>| match wild {
        // `0` follows `/`.
        Some(end) => Step::Seek(format!("{}0", &topic[..end])),
        None => Step::End,
    };
    let mut levels = filter.split('/').peekable();
    while let Some(level) = levels.next() {
        let Some(rest) = topic.get(at..) else { return Step::Next };
        let end = at + rest.find('/').unwrap_or(rest.len());
        let own = &topic[at..end];
        match level {
            "+" => wild = Some(end),
            level if level != own => {
                let target = format!("{}{level}", &topic[..at]);
                if topic < &*target {
                    return Step::Seek(target);
                }
                let target = target + "/";
                if topic < &*target && levels.peek().is_some() {
                    return Step::Seek(target);
                }
                return others(wild);
            }
            _ => (),
        }
        at = end + 1;
    }
    // The topic has more levels than the filter.
    others(wild)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The matching topics, examined `most` at a time.
    fn scanned(topics: &Topics<()>, filter: &str, most: usize) -> Vec<String> {
        let named: Topics<&str> = topics.keys().map(|topic| (topic.clone(), &**topic)).collect();
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let found = |topic: &&str| {
                all.push(topic.to_string());
                true
            };
            after = scan(&named, filter, after, most, found).last;
            if after.is_none() {
                return all;
            }
        }
    }

    #[test]
    fn topics_that_cannot_match_are_skipped() {
        let mut topics = Topics::new();
        for n in 0..1000 {
            for topic in ["a/{}/x", "a/{}/y", "a-{}", "b/{}", "c/d/{}", "$s/{}"] {
                topics.insert(topic.replace("{}", &n.to_string()).into(), ());
            }
        }
        for (filter, matching, most) in [
            ("a/7/x", 1, 3),
            ("a/+/y", 1000, 3000),
            ("a/#", 2000, 2003),
            ("c/+", 0, 4),
            ("+/d/5", 1, 1010),
            ("d/#", 0, 1),
            ("#", 5000, 5002),
        ] {
            let mut count = 0;
            let end = scan(&topics, filter, None, most, |()| {
                count += 1;
                true
            });
            assert_eq!((count, end.last), (matching, None), "{filter}");
        }
    }

    proptest! {
        #[test]
        fn the_same_topics_match(
            topics in prop::collection::btree_set("[$ab0.-]{0,2}(/[$ab0.-]{0,2}){0,3}", 0..60),
            filter in "(\\+|[$ab0.-]{0,2})(/(\\+|[$ab0.-]{0,2})){0,3}(/#)?|#",
            most in 1usize..9,
        ) {
            let all: Topics<()> = topics.iter().map(|topic| (topic.as_str().into(), ())).collect();
            let expected: Vec<_> =
                topics.into_iter().filter(|topic| topic::matches(&filter, topic)).collect();
            prop_assert_eq!(scanned(&all, &filter, most), expected);
        }
    }
}
