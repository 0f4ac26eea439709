//! Compares access lists with a simple model of patterns; checks the position of errors.

use phalanx_access::{Coverage, Rules, Subject};
use proptest::prelude::*;

/// Whether a pattern or filter matches a topic: a direct implementation of the standard.
fn matches(pattern: &[&str], topic: &[&str]) -> bool {
    match (pattern, topic) {
        (["#"], _) | ([], []) => true,
        (["+", pattern @ ..], [_, topic @ ..]) => matches(pattern, topic),
        ([level, pattern @ ..], [first, topic @ ..]) => level == first && matches(pattern, topic),
        _ => false,
    }
}

fn is_matched(pattern: &str, topic: &str) -> bool {
    let has_wildcard = pattern.starts_with(['+', '#']);
    let (pattern, levels): (Vec<_>, Vec<_>) =
        (pattern.split('/').collect(), topic.split('/').collect());
    matches(&pattern, &levels) && !(has_wildcard && topic.starts_with('$'))
}

/// All topics of up to four of these levels.
fn topics() -> Vec<String> {
    let levels = ["a", "b", "$s", "eve", ""];
    let mut all: Vec<String> = levels.iter().map(ToString::to_string).collect();
    // The empty topic too: nobody can publish to it, but patterns see one empty level.
    let mut last = all.clone();
    for _ in 0..3 {
        let extended = last.iter().flat_map(|it| levels.map(|level| format!("{it}/{level}")));
        last = extended.collect();
        all.extend(last.clone());
    }
    all
}

fn pattern() -> impl Strategy<Value = String> {
    let level = prop::sample::select(vec!["a", "b", "$s", "+", "eve", ""]);
    let levels = prop::collection::vec(level, 0..3);
    (levels, prop::sample::select(vec!["a", "+", "#", "b"])).prop_map(|(levels, last)| {
        let mut all = levels;
        all.push(last);
        all.join("/")
    })
}

const EVE: Subject<'_> = Subject { user: Some("eve"), client: "a" };

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// A list of one allow rule and one deny rule decides on topics and filters as the model does.
    #[test]
    fn lists_agree_with_the_model(
        allow in pattern(),
        deny in prop::option::of(pattern()),
        filter in pattern(),
    ) {
        let denied = deny.as_ref().map(|deny| format!("topic deny {deny}\n")).unwrap_or_default();
        // Rules with the placeholders `%u` and `%c` decide the same.
        let with_placeholders = allow.replace("eve", "%u").replace('a', "%c");
        let rules = [
            Rules::parse(&format!("user eve\ntopic read {allow}\n{denied}")).unwrap(),
            Rules::parse(&format!("{denied}pattern read {with_placeholders}\nuser eve\n{denied}")).unwrap(),
        ];
        let allowed = |topic: &str| {
            let is_denied = deny.as_ref().is_some_and(|deny| is_matched(deny, topic));
            is_matched(&allow, topic) && !is_denied
        };
        let (mut all, mut partly) = (true, false);
        for topic in topics() {
            for rules in &rules {
                prop_assert_eq!(rules.may_receive(EVE, &topic), allowed(&topic), "{}", topic);
                prop_assert!(!rules.may_publish(EVE, &topic));
            }
            if is_matched(&filter, &topic) {
                all &= allowed(&topic);
                partly |= allowed(&topic);
            }
        }
        for rules in &rules {
            match rules.may_subscribe(EVE, &filter) {
                Coverage::All => prop_assert!(all, "not the whole of {}", filter),
                Coverage::Some => (),
                Coverage::None => prop_assert!(!partly, "some of {}", filter),
            }
        }
        // Without a deny rule, an allow rule decides alone.
        if deny.is_none() && !partly {
            prop_assert_eq!(rules[0].may_subscribe(EVE, &filter), Coverage::None);
        }
        if deny.is_none() && allow == filter {
            prop_assert_eq!(rules[0].may_subscribe(EVE, &filter), Coverage::All);
        }
    }

    /// Every text parses to a list or an error in it, and no user or client name widens a pattern.
    #[test]
    fn every_text_parses_or_fails(text in "(user |client |topic |pattern |read |deny |%u|%c|[+#/ a\n]|.){0,40}", name in ".{0,6}") {
        match Rules::parse(&text) {
            Ok(rules) => {
                rules.may_receive(Subject { user: Some(&name), client: &name }, &text);
                rules.may_subscribe(Subject { user: Some(&name), client: &name }, &text);
            }
            Err(errors) => for errors in errors {
                let line = text.lines().nth(errors.line - 1).unwrap();
                prop_assert!((1..=line.chars().count() + 1).contains(&errors.column), "{}", errors);
            },
        }
        let rules = Rules::parse("pattern %u/%c/x").unwrap();
        let subject = Subject { user: Some(&name), client: "c" };
        let own_topic = format!("{name}/c/x");
        prop_assert!(!rules.may_receive(subject, "other/c/x") || name == "other");
        let is_name = !name.is_empty() && !name.starts_with('$') && !name.contains(['/', '+', '#']);
        prop_assert_eq!(rules.may_receive(subject, &own_topic), is_name);
    }
}

#[test]
fn sections_apply_to_their_users() {
    let rules = "topic read open/#\nuser eve\ntopic readwrite own of/eve\ntopic write w\nclient c 1\ntopic read c\n\
                 user eve\ntopic r\npattern p/%u-%c/x";
    let rules = Rules::parse(rules).unwrap();
    let anonymous = Subject { user: None, client: "c 1" };
    let eve = Subject { user: Some("eve"), client: "c2" };
    // (user, topic, may receive, may publish)
    let table = [
        (anonymous, "open/x", true, false),
        (anonymous, "c", true, false),
        (anonymous, "w", false, false),
        (anonymous, "p/-c 1/x", false, false),
        (eve, "open/x", false, false),
        (eve, "own of/eve", true, true),
        (eve, "w", false, true),
        (eve, "r", true, true),
        (eve, "c", false, false),
        (eve, "p/eve-c2/x", true, true),
        (eve, "p/eve-c3/x", false, false),
    ];
    for (subject, topic, receive, publish) in table {
        assert_eq!(rules.may_receive(subject, topic), receive, "{subject:?} {topic}");
        assert_eq!(rules.may_publish(subject, topic), publish, "{subject:?} {topic}");
    }
    assert!(!Rules::default().may_receive(eve, "x"), "access without a matching rule is refused");
}

#[test]
fn errors_name_their_position() {
    // (text, line, column, message)
    let table = [
        ("topics x", 1, 1, "expected `user`"),
        ("\n  user", 2, 7, "expected a name"),
        ("topic", 1, 6, "expected a topic"),
        ("topic read ", 1, 11, "expected a topic after `read`"),
        ("topic dney a/#", 1, 7, "found `dney`, expected `read`, `write`, `readwrite` or `deny`"),
        ("pattern raed %u", 1, 9, "found `raed`"),
        ("topic read a/#/b", 1, 14, "only allowed at the end"),
        ("topic\ta/b+/c", 1, 10, "a whole level"),
        ("topic write a/b#", 1, 16, "must be the whole last level"),
        ("user eve\ntopic inbox/%u", 2, 13, "in `pattern` lines"),
        ("topic é/é+", 1, 10, "a whole level"),
    ];
    for (text, line, column, message) in table {
        let errors = Rules::parse(text).unwrap_err();
        assert_eq!(errors.len(), 1, "{text}");
        assert_eq!((errors[0].line, errors[0].column), (line, column), "{text:?}: {}", errors[0]);
        assert!(errors[0].message.contains(message), "{}", errors[0]);
    }
    assert_eq!(Rules::parse("x\ny").unwrap_err().len(), 2, "the whole text at once");
}
