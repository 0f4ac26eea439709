//! The public interface of the filter language: meaning, written form and error messages.

use crate::common::World;
use fastrand::Rng;
use phalanx_matcher::{Filter, Value};

fn number(value: i64) -> Value<'static> {
    Value::from(value)
}

#[test]
fn operators_mean_what_sql_says() {
    let event = [
        ("i", number(5)),
        ("s", Value::from("abc")),
        ("b", Value::from(true)),
        ("u", Value::Untyped("7")),
        ("w", Value::Untyped("7.0")),
        ("t", Value::Untyped("abd")),
        ("b2", Value::Untyped("TRUE")),
        ("select", Value::from("x")),
        ("twice", number(1)),
        ("twice", number(2)),
    ];
    let holds = [
        "i = 5",
        "i = 5.0",
        "i <> 4",
        "i != 4",
        "i < 5.5",
        "i <= 5",
        "i > -1",
        "i >= 5",
        "i BETWEEN 5 AND 5",
        "i NOT BETWEEN 6 AND 9",
        "i NOT BETWEEN 9 AND 6",
        "i IN (1, 5)",
        "i NOT IN (1, 2)",
        "s LIKE 'ab%'",
        "s LIKE '%'",
        "s LIKE 'abc'",
        "s NOT LIKE 'b%'",
        "s > 'abb'",
        "b = TRUE",
        "b <> false",
        "u = 7",
        "u = '7'",
        "u < 8 AND u > '6'",
        "missing IS NULL",
        "i IS NOT NULL",
        "NOT missing IS NOT NULL",
        "\"select\" = 'x'",
        "i = 1 OR s = 'abc'",
        "NOT (i = 1 OR i = 2)",
        "i = 5 AND (s = '' OR b = TRUE)",
        "twice = 2",
        "missing = 1 OR i = 5",
        "NOT (missing = 1 AND i = 4)",
        "i not in (1) And s like 'a%'",
        "5 = i AND 4 < i AND 'abc' >= s",
        "s CONTAINS 'b' AND s contains '' AND s NOT CONTAINS 'x'",
        "s LIKE '%c' AND s LIKE '%b%' AND s LIKE 'a%c' AND s LIKE 'a%b%c' AND s LIKE '%a%b%c%'",
        "s NOT LIKE 'ab%bc' AND s NOT LIKE '%a'",
        "i + 1 = 6 AND i - 1 = 4 AND i * 2 = 10 AND i / 2 = 2.5 AND -i = -5 AND i -5 = 0 AND i+-1=4",
        "(i + 1) * 2 > 11 AND 2 * (1 + i) > 11 AND (i) = (5) AND ((i - 1) * 2 = 8 OR i = 1)",
        "i * i - 1 > u + 1 AND i < u AND u > i AND NOT i >= u",
        "i BETWEEN u - 3 AND u AND i + 1 NOT BETWEEN 7 AND u * 2 AND i BETWEEN 10 / 2 AND 5 * 1",
        "s = s AND s < t AND u = w AND b = b2",
    ];
    for text in holds {
        assert!(Filter::parse(text).expect(text).matches(&event), "{text}");
    }
    let fails = [
        "i = 4",
        "i < 5",
        "i > 5",
        "i BETWEEN 9 AND 1",
        "s LIKE 'b%'",
        "s NOT LIKE '%'",
        "twice = 1",
        // A missing attribute is unknown, and so is the negation.
        "missing = 1",
        "NOT missing = 1",
        "missing <> 1",
        "missing NOT IN (1)",
        "missing NOT LIKE 'a%'",
        "i = 'x'",
        "NOT i = 'x'",
        "i <> 'x'",
        "s > 5",
        "NOT s > 5",
        "b = 1",
        "i NOT IN (1, 'x')",
        "I = 5",
        "missing IS NOT NULL",
        "i IS NULL",
        "i CONTAINS '5'",
        "NOT missing CONTAINS 'a'",
        "missing NOT LIKE '%a'",
        "s LIKE 'ab%bc'",
        "s LIKE '%bc%c'",
        "i + missing = 5",
        "NOT i + missing = 5",
        "i + s > 0",
        "NOT i / (u - w) > 0",
        "i * 99999999999999999999 > 0",
        "i < missing",
        "i = s",
        "NOT i = s",
        "b < b2",
        "b = i",
    ];
    for text in fails {
        assert!(!Filter::parse(text).expect(text).matches(&event), "{text}");
    }
}

#[test]
fn errors_name_their_column() {
    let mistakes = [
        ("", 1, "expected an attribute or a value like 5, 'text' or TRUE, found the end"),
        ("a", 2, "expected =, <>, <, <=, >, >=, BETWEEN, IN, LIKE, CONTAINS or IS, found the end"),
        ("a = ", 5, "expected an attribute or a value like 5, 'text' or TRUE, found the end"),
        ("a == 5", 4, "equality is written with one =, as in a = 5"),
        (
            "a STARTSWITH 'x'",
            3,
            "LIKE 'start%', LIKE '%end' and CONTAINS 'part' search in a text; there are no regular expressions",
        ),
        ("a CONTAINS 5", 12, "expected a text like 'part', found `5`"),
        (
            "a + 'x' = 1",
            3,
            "arithmetic needs numbers; put texts in single quotes, but not attributes",
        ),
        (
            "a + 1 = 'x'",
            9,
            "arithmetic yields a number, so compare it with a number or an attribute",
        ),
        ("'a' = 'b'", 1, "both sides are constants; an attribute has no quotes, or double quotes"),
        (
            "a > 1 / 0",
            7,
            "the constants cannot be computed: division by zero, or more than 20 digits before the point",
        ),
        (
            "a * 2 IN (1)",
            7,
            "only =, <>, <, <=, >, >= and BETWEEN apply to a computed value or a constant",
        ),
        ("a = 1 -- note", 7, "comments are not supported; separate two minus signs with a space"),
        ("a + 1", 6, "expected =, <>, <, <=, >, >= or BETWEEN, found the end"),
        ("(a + 1", 7, "expected =, <>, <, <=, >, >= or BETWEEN, found the end"),
        ("a > (b + 1", 11, "expected an operator or `)`, found the end"),
        ("a = b +", 8, "expected an attribute or a value like 5, 'text' or TRUE, found the end"),
        ("a 5", 3, "expected =, <>, <, <=, >, >=, BETWEEN, IN, LIKE, CONTAINS or IS, found `5`"),
        ("a = 1 b = 2", 7, "expected AND, OR or the end, found `b`"),
        ("(a = 1", 7, "expected AND, OR or `)`, found the end"),
        ("a = 'x", 5, "the string that opens here is not closed"),
        ("\"a = 1", 1, "the quoted name that opens here is not closed"),
        ("ü = 1 # 2", 7, "unexpected character '#'; put a name that contains it in double quotes"),
        ("a = 12x", 5, "not a number; write it like 42, -1.5 or 2e6"),
        ("a = 1e99", 5, "more than 20 digits before the point"),
        ("a = 0.1234567890123456789", 5, "more than 18 digits after the point; round it"),
        ("a < TRUE", 5, "TRUE and FALSE have no order; use = or <>"),
        ("a BETWEEN 1 AND 'x'", 17, "expected a bound of the same type as the first, found 'x'"),
        (
            "5 BETWEEN 1 AND 9",
            1,
            "both sides are constants; an attribute has no quotes, or double quotes",
        ),
        (
            "'x' BETWEEN a + 1 AND 9",
            1,
            "arithmetic yields a number, so compare it with a number or an attribute",
        ),
        ("a NOT = 1", 7, "expected BETWEEN, IN, LIKE or CONTAINS, found `=`"),
        ("a IN 1", 6, "expected `(`, found `1`"),
        ("a IN (1 2)", 9, "expected `,` or `)`, found `2`"),
        ("a IS 5", 6, "expected NULL, found `5`"),
        (
            "a LIKE 'x_'",
            8,
            "the only wildcard of LIKE is %, any text; write a literal _ with ESCAPE",
        ),
        (
            "a LIKE 'x%' ESCAPE 'yy'",
            20,
            "ESCAPE takes one character, which may precede only %, _ and itself",
        ),
        ("null = 1", 1, "expected an attribute or a value like 5, 'text' or TRUE, found `null`"),
    ];
    for (text, column, what) in mistakes {
        let error = Filter::parse(text).expect_err(text);
        assert_eq!(error.to_string(), format!("column {column}: {what}"), "{text}");
        assert_eq!(error.column(), column);
    }
}

#[test]
fn errors_repeat_little_of_the_filter() {
    let long = "x".repeat(4000);
    let queries = [long.clone(), format!("a!{long}"), format!("=\u{1b}[2J\n{long}")];
    let texts = [format!("a BETWEEN 1 AND '{long}'"), format!("a = 1 \"\u{1b}{long}\"")];
    let errors = queries.iter().map(|query| Filter::parse_query(query));
    for error in errors.chain(texts.iter().map(|text| Filter::parse(text))) {
        let message = error.unwrap_err().to_string();
        assert!(
            message.len() < 200 && message.contains('…') && !message.contains(char::is_control),
            "{message}"
        );
    }
}

#[test]
fn limits_are_enforced() {
    let deep = |n: usize| format!("{}a = 1{}", "(".repeat(n), ")".repeat(n));
    assert!(Filter::parse(&deep(Filter::MAX_DEPTH)).is_ok());
    let error = Filter::parse(&deep(Filter::MAX_DEPTH + 1)).unwrap_err();
    assert_eq!(error.to_string(), "column 33: more than 32 nested parentheses and NOTs");
    let nots = |n: usize| format!("{}a = 1", "NOT ".repeat(n));
    assert!(Filter::parse(&nots(Filter::MAX_DEPTH)).is_ok());
    assert!(Filter::parse(&nots(Filter::MAX_DEPTH + 1)).is_err());
    assert!(Filter::parse(&"(".repeat(Filter::MAX_TEXT)).is_err());

    let text = |length: usize| format!("a = '{}'", "x".repeat(length - 6));
    assert!(Filter::parse(&text(Filter::MAX_TEXT)).is_ok());
    let long = text(Filter::MAX_TEXT + 1);
    assert_eq!(Filter::parse(&long).unwrap_err().to_string(), "column 1: longer than 8192 bytes");

    let list = |n: usize| (0..n).map(|i| i.to_string()).collect::<Vec<_>>().join(",");
    let within = Filter::parse(&format!("a IN ({})", list(Filter::MAX_ALTERNATIVES))).unwrap();
    assert_eq!(within.alternatives(), Filter::MAX_ALTERNATIVES);
    for wide in [
        format!("a IN ({})", list(Filter::MAX_ALTERNATIVES + 1)),
        // Would expand to 4³⁰ conjunctions.
        vec!["(a IN (1,2) OR b IN (3,4))"; 30].join(" AND "),
    ] {
        let error = Filter::parse(&wide).unwrap_err().to_string();
        assert_eq!(
            error,
            "column 1: expands to more than 256 alternatives; split it into several filters"
        );
    }
    let joined = |n: usize| (0..n).map(|i| format!("a{i} = 1")).collect::<Vec<_>>().join(" AND ");
    let not_in = |n: usize| format!("a NOT IN ({})", list(n));
    let (max, over) = (Filter::MAX_CONDITIONS, Filter::MAX_CONDITIONS + 1);
    for (text, long) in [(joined(max), joined(over)), (not_in(max), not_in(over))] {
        let filter = Filter::parse(&text).unwrap();
        assert_eq!((filter.alternatives(), filter.conditions()), (1, max));
        let error = Filter::parse(&long).unwrap_err().to_string();
        assert_eq!(error, "column 1: an alternative has more than 64 conditions; remove some");
    }
}

/// A filter of half a kilobyte has as many conditions as the limits allow, and uses little memory for each.
#[test]
fn long_expansions_share_their_conditions() {
    let either = ["(a < 1 OR a > 1)"; 8].join(" AND ");
    let others: Vec<_> = (0..Filter::MAX_CONDITIONS - 8).map(|n| format!("b{n} > {n}")).collect();
    let filter = Filter::parse(&format!("{either} AND {}", others.join(" AND "))).unwrap();
    assert_eq!(filter.alternatives(), 2, "the others are contradictory");
    let either: Vec<_> = (0..8).map(|n| format!("(c{n} < 1 OR d{n} > 1)")).collect();
    let filter = Filter::parse(&format!("{} AND {}", either.join(" AND "), others.join(" AND ")));
    let filter = filter.unwrap();
    let all = Filter::MAX_ALTERNATIVES * Filter::MAX_CONDITIONS;
    assert_eq!((filter.alternatives(), filter.conditions()), (Filter::MAX_ALTERNATIVES, all));
    let shown = format!("{filter:?}");
    assert_eq!(shown.matches("Inside").count(), 16 + others.len(), "each condition is stored once");
}

#[test]
fn limits_of_computed_conditions_are_enforced() {
    let error = |text: &str| Filter::parse(text).unwrap_err().to_string();
    let searches = |n: usize| vec!["a CONTAINS 'x'"; n].join(" OR ");
    assert!(Filter::parse(&searches(Filter::MAX_COMPUTED)).unwrap().is_computed());
    assert!(error(&searches(Filter::MAX_COMPUTED + 1)).contains("more than 16 conditions"));
    let sum = |n: usize| format!("a > {}", vec!["b"; n + 1].join(" + "));
    assert!(Filter::parse(&sum(Filter::MAX_OPERATORS)).is_ok());
    let long = sum(Filter::MAX_OPERATORS + 1);
    assert!(error(&long).contains("more than 64 arithmetic operators"));
    // The left side of BETWEEN counts twice.
    let between = format!("{} BETWEEN 1 AND c", vec!["b"; Filter::MAX_OPERATORS / 2 + 2].join("+"));
    assert!(error(&between).contains("arithmetic operators"));
    let deep = |n: usize| format!("a > {}b{}", "(".repeat(n), ")".repeat(n));
    assert!(Filter::parse(&deep(Filter::MAX_DEPTH)).is_ok());
    assert!(error(&deep(Filter::MAX_DEPTH + 1)).contains("nested parentheses"));
    let negated = "- ".repeat(Filter::MAX_TEXT / 2 - 3);
    assert!(error(&format!("a > {negated}b")).contains("nested"));
    let text = "x".repeat(Filter::MAX_SEARCHED + 1);
    let (short, long) = ([("a", Value::from(&text[1..]))], [("a", Value::from(&*text))]);
    for searches in ["a LIKE '%x'", "a CONTAINS 'x'", "a LIKE 'x%x'"] {
        let filter = Filter::parse(searches).unwrap();
        assert!(filter.matches(&short) && !filter.matches(&long));
        assert!(!Filter::parse(&format!("NOT {searches}")).unwrap().matches(&long));
    }
    assert!(Filter::parse("a LIKE 'x%'").unwrap().matches(&long));
}

#[test]
fn contradictory_alternatives_are_removed() {
    let come_to = [
        ("a = 1 AND a = 2", 0),
        ("a = 1 AND a > 0", 1),
        ("a = 1 AND a > 1", 0),
        ("a > 2 AND a < 1", 0),
        ("a BETWEEN 2 AND 1 OR b = 1", 1),
        // There is no number between two neighbours.
        ("a > 5 AND a < 5.000000000000000001", 0),
        ("a > 5 AND a <= 5.000000000000000001", 1),
        ("NOT (a <= 5 OR a >= 5.000000000000000001)", 0),
        ("a IS NULL AND a = 1", 0),
        ("a IN (1, 2) AND a IN (2, 3)", 1),
        // An untyped text may be both.
        ("a = 1 AND a = '1'", 1),
    ];
    for (text, alternatives) in come_to {
        assert_eq!(Filter::parse(text).unwrap().alternatives(), alternatives, "{text}");
    }
}

#[test]
fn filters_read_back_as_written() {
    let same = [
        "a = 1 AND (b = 2 OR NOT c < 3.5) AND d IS NOT NULL",
        "NOT (a = 1 OR b LIKE 'x%')",
        "\"a-b\" = 'it''s' AND \"and\" <> TRUE AND \"q\"\"\" = 1",
        "a LIKE '50\\%\\_\\\\%' ESCAPE '\\'",
        "a NOT BETWEEN -1 AND 2 AND b NOT IN (1, 'x', FALSE)",
        "a LIKE '%x' AND b LIKE '%50\\%%' ESCAPE '\\' AND c LIKE 'a%b%c'",
        "a + b * 2 > (c - 1) * (d / -2) AND a - (b - c) <> 0 AND \"and\" < b",
    ];
    for text in same {
        assert_eq!(Filter::parse(text).expect(text).to_string(), text);
    }
    let world = World { names: 4, constants: 10, depth: 4 };
    for seed in 0..3000 {
        let text = crate::common::filter(world, &mut Rng::with_seed(seed));
        let Ok(filter) = Filter::parse(&text) else { continue };
        let written = filter.to_string();
        assert_eq!(Filter::parse(&written).expect(&written), filter, "seed {seed}: {text}");
        assert_eq!(Filter::parse(&written).unwrap().to_string(), written, "seed {seed}");
    }
}

#[test]
fn queries_are_short_filters() {
    let same = [
        ("k=v", "k = 'v'"),
        ("k=v&k2>5", "k = 'v' AND k2 > 5"),
        ("a-b!=2.5&c<>x y&d<=1&e=true", "\"a-b\" <> 2.5 AND c <> 'x y' AND d <= 1 AND e = TRUE"),
        ("k=", "k = ''"),
        ("k='=v'", "k = '=v'"),
        ("k='~v'&l='NULL'&m=x~&n=a(b)", "k = '~v' AND l = 'NULL' AND m = 'x~' AND n = 'a(b)'"),
        ("k='it''s'&l='a|b&c'&m='5'", "k = 'it''s' AND l = 'a|b&c' AND m = '5'"),
        ("k=''&l=it's&m!='''&'", "k = '' AND l = 'it''s' AND m <> '''&'"),
        ("k=hello!&l=x AND&m=5%", "k = 'hello!' AND l = 'x AND' AND m = '5%'"),
    ];
    for (query, text) in same {
        assert_eq!(Filter::parse_query(query).expect(query).to_string(), text);
    }
    let mistakes = [
        ("", "column 1: expected a condition like name=value, found nothing"),
        ("a=1&", "column 5: expected a condition like name=value, found nothing"),
        ("a=1&=2", "column 5: expected the name of an attribute, found `=2`"),
        ("a!2", "column 2: expected =, !=, <, <=, > or >=, found `a!2`"),
        ("a>true", "column 3: TRUE and FALSE have no order; use = or <>"),
        ("a=123456789012345678901", "column 3: more than 20 digits before the point"),
    ];
    for (query, error) in mistakes {
        assert_eq!(Filter::parse_query(query).unwrap_err().to_string(), error);
    }
    // Texts with an `e` before digits are not numbers out of range.
    for (query, text) in [
        ("id=node500&room!=suite401", "id = 'node500' AND room <> 'suite401'"),
        ("id=E12345", "id = 'E12345'"),
    ] {
        assert_eq!(Filter::parse_query(query).expect(query).to_string(), text);
    }
    // A condition in the style of another language is not taken as a string.
    for (query, column, hint) in [
        ("a==1", 3, "operators are"),
        ("b=1&a=>1", 7, "operators are"),
        ("a=<1", 3, "operators are"),
        ("a=!b", 3, "operators are"),
        ("a=1|b=2", 4, "there is no OR here"),
        ("a=1||b=2", 4, "there is no OR here"),
        ("a=x;b=2", 6, "single quotes"),
        ("a=1,b<2", 6, "single quotes"),
        ("a=1 AND b=2", 10, "single quotes"),
        ("a=x OR y", 5, "joined by &"),
        ("a=1 AND b IS NULL", 5, "joined by &"),
        ("a =1", 1, "blanks"),
        ("a= 1", 3, "blanks"),
        ("a=x ", 3, "blanks"),
        ("a=TRUE", 3, "lower case"),
        ("a=~x", 3, "operators are"),
        ("a~=x", 2, "operators are"),
        ("a=NULL", 3, "IS NULL"),
        ("(a=1)", 1, "parentheses"),
        ("a=\"x\"", 3, "single quotes"),
        ("a='x", 3, "single quotes"),
        ("a='x'y'", 3, "single quotes"),
        ("a='x'y", 3, "single quotes"),
    ] {
        let error = Filter::parse_query(query).expect_err(query);
        assert_eq!(error.column(), column, "{query}: {error}");
        assert!(error.to_string().contains(hint), "{query}: {error}");
    }
}
