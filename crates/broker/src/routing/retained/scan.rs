//! Scans ordered topics for those that match a filter, starting after any topic.

use std::collections::BTreeMap;
use std::ops::Bound;

use phalanx_mqtt::topic;

/// Values by topic.
pub(super) type Topics<T> = BTreeMap<Box<str>, T>;

/// How the scan continues after a topic.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// The topic matches.
    Matches,
    /// The topic does not match; the next one may.
    Next,
    /// No topic before this one matches.
    Seek(String),
    /// No later topic matches.
    End,
}

/// Whether a scan continues after a matching topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Continue,
    /// The scan ends. The next one begins after this topic.
    EndBehind,
    /// The scan ends. The next one begins with this topic.
    EndBefore,
}

/// The result of a scan.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Scanned<'t> {
    /// Whether there are no more topics.
    pub(crate) is_complete: bool,
    /// The topic after which the next scan begins; `None` if this scan did not advance.
    pub(crate) last: Option<&'t str>,
    /// The number of examined topics.
    pub(crate) examined: usize,
}

/// Calls `found` for each topic that matches `filter`, in order, starting after topic `after`. Examines between one and
/// `most` topics, and stops early if `found` says so.
pub(super) fn scan<'t, T>(
    topics: &'t Topics<T>,
    filter: &str,
    after: Option<&str>,
    most: usize,
    mut found: impl FnMut(&'t T) -> Flow,
) -> Scanned<'t> {
    let first = Bound::Included(literals(filter));
    let first = after.filter(|after| *after >= literals(filter)).map_or(first, Bound::Excluded);
    let mut rest = topics.range::<str, _>((first, Bound::Unbounded));
    let (mut last, mut examined) = (None, 0);
    while let Some((topic, value)) = rest.next() {
        examined += 1;
        let flow = match step(filter, topic) {
            Step::Matches => found(value),
            Step::Next => Flow::Continue,
            Step::Seek(target) => {
                let target = Bound::Included(&*target);
                rest = topics.range::<str, _>((target, Bound::Unbounded));
                Flow::Continue
            }
            Step::End => break,
        };
        if flow != Flow::EndBefore {
            last = Some(&**topic);
        }
        if examined >= most || flow != Flow::Continue {
            return Scanned { is_complete: false, last, examined };
        }
    }
    Scanned { is_complete: true, last, examined }
}

/// The levels of a filter before the first wildcard.
fn literals(filter: &str) -> &str {
    let wildcard = filter.find(['+', '#']).unwrap_or(filter.len());
    filter[..wildcard].trim_end_matches('/')
}

/// Compares a topic with a filter. Topics are in byte order, in which some characters precede `/`: `a-b` is between `a`
/// and `a/b`.
fn step(filter: &str, topic: &str) -> Step {
    if topic::matches(filter, topic) {
        return Step::Matches;
    }
    if filter.starts_with(['+', '#']) && topic.starts_with('$') {
        return Step::Seek("%".into());
    }
    // `wild` is the end of the last level that `+` matched. A different level at that position may match again.
    let (mut at, mut wild) = (0, None);
    let others = |wild: Option<usize>| match wild {
        // `0` is the byte after `/`.
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
            // Every third matching topic is left to the next scan once.
            let mut calls = 0;
            let found = |topic: &&str| {
                calls += 1;
                if calls % 3 == 0 {
                    return Flow::EndBefore;
                }
                all.push(topic.to_string());
                Flow::Continue
            };
            let scanned = scan(&named, filter, after, most, found);
            if scanned.is_complete {
                return all;
            }
            after = scanned.last.or(after);
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
                Flow::Continue
            });
            assert!(count == matching && end.is_complete, "{filter}: {count}");
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
