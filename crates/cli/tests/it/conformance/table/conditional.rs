//! Conditional requests and their precedence (RFC 9110, 13).

use crate::conformance::case::{Answer, Case, any, case, get, is, open, request};
use crate::conformance::tree::{AFTER, BEFORE, CHANGED, CHANGED_850, CHANGED_ASCTIME, FILE, Facts};

pub(crate) fn cases(facts: &Facts) -> Vec<Case> {
    let etag = facts.etag.as_str();
    let whole = || is(200).body(FILE);
    let unchanged = || is(304).field("ETag", etag).lacks("Content-Type").lacks("Content-Range");
    let failed = || is(412);
    let of = |name: &str, section, lines: String, answer: Answer| {
        case(format!("if-{name}"), section, get("/file.txt", &lines), open([answer]))
    };
    let none = |name: &str, value: &str, answer| {
        of(
            &format!("none-match-{name}"),
            "RFC 9110, 13.1.2",
            format!("If-None-Match: {value}\r\n"),
            answer,
        )
    };
    let matching = |name: &str, value: &str, answer| {
        of(&format!("match-{name}"), "RFC 9110, 13.1.1", format!("If-Match: {value}\r\n"), answer)
    };
    let if_modified_since = |name: &str, value: &str, answer| {
        of(
            &format!("modified-since-{name}"),
            "RFC 9110, 13.1.3",
            format!("If-Modified-Since: {value}\r\n"),
            answer,
        )
    };
    let unmodified = |name: &str, value: &str, answer| {
        of(
            &format!("unmodified-since-{name}"),
            "RFC 9110, 13.1.4",
            format!("If-Unmodified-Since: {value}\r\n"),
            answer,
        )
    };
    let both = |name: &str, lines: &[(&str, &str)], answer| {
        let lines = lines.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        of(name, "RFC 9110, 13.2.2", lines, answer)
    };
    const FUTURE: &str = "Fri, 01 Jan 2100 00:00:00 GMT";
    vec![
        none("same", etag, unchanged()),
        none("weak", &format!("W/{etag}"), unchanged()),
        none("in-list", &format!("\"a\", {etag}, \"b\""), unchanged()),
        none("in-list-without-spaces", &format!("\"a\",{etag},\"b\""), unchanged()),
        none("weak-in-list", &format!("\"a\", W/{etag}"), unchanged()),
        none("empty-elements-in-list", &format!(",, \"a\",, {etag},"), unchanged()),
        none("behind-tag-with-comma", &format!("\"a,b\", {etag}"), unchanged()),
        none("star", "*", unchanged()),
        none("other", "\"other\"", whole()),
        none("others", "\"a\", \"b\", W/\"c\"", whole()),
        none("prefix", &format!("{}x\"", &etag[..etag.len() - 1]), whole()),
        none("without-quotes", etag.trim_matches('"'), whole()),
        none("within-another-tag", &format!("\"a {} b\"", etag.trim_matches('"')), whole()),
        none("quoted-star", "\"*\"", whole()),
        none("empty", "", whole()),
        none("lower-case-w", &format!("w/{etag}"), whole()),
        of(
            "none-match-on-two-lines",
            "RFC 9110, 5.3",
            format!("If-None-Match: \"a\"\r\nIf-None-Match: {etag}\r\n"),
            unchanged(),
        ),
        matching("same", etag, whole()),
        matching("star", "*", whole()),
        matching("in-list", &format!("\"a\", {etag}"), whole()),
        matching("other", "\"other\"", failed()),
        matching("others", "\"a\", \"b\"", failed()),
        matching("weak-is-not-enough", &format!("W/{etag}"), failed()),
        matching("without-quotes", etag.trim_matches('"'), failed()),
        of(
            "match-on-two-lines",
            "RFC 9110, 5.3",
            format!("If-Match: \"a\"\r\nIf-Match: {etag}\r\n"),
            whole(),
        ),
        if_modified_since("same", CHANGED, unchanged()),
        if_modified_since("later", AFTER, unchanged()),
        if_modified_since("earlier", BEFORE, whole()),
        if_modified_since("rfc-850", CHANGED_850, unchanged()),
        if_modified_since("asctime", CHANGED_ASCTIME, unchanged()),
        if_modified_since("rfc-850-earlier", "Sunday, 06-Nov-94 08:49:36 GMT", whole()),
        if_modified_since("asctime-earlier", "Sun Nov  6 08:49:36 1994", whole()),
        if_modified_since("no-date", "yesterday", whole()),
        if_modified_since("number", "784111777", whole()),
        if_modified_since("empty", "", whole()),
        if_modified_since("other-zone", "Sun, 06 Nov 1994 08:49:37 CET", whole()),
        if_modified_since("day-32", "Sun, 32 Nov 1994 08:49:37 GMT", whole()),
        if_modified_since("hour-24", "Sun, 06 Nov 1994 24:49:37 GMT", whole()),
        unmodified("same", CHANGED, whole()),
        unmodified("later", AFTER, whole()),
        unmodified("earlier", BEFORE, failed()),
        unmodified("rfc-850-earlier", "Sunday, 06-Nov-94 08:49:36 GMT", failed()),
        unmodified("asctime-earlier", "Sun Nov  6 08:49:36 1994", failed()),
        unmodified("no-date", "yesterday", whole()),
        unmodified("future", FUTURE, whole()),
        both(
            "none-match-over-since-1",
            &[("If-None-Match", "\"no\""), ("If-Modified-Since", CHANGED)],
            whole(),
        ),
        both(
            "none-match-over-since-2",
            &[("If-None-Match", etag), ("If-Modified-Since", BEFORE)],
            unchanged(),
        ),
        both(
            "match-over-unmodified-1",
            &[("If-Match", etag), ("If-Unmodified-Since", BEFORE)],
            whole(),
        ),
        both(
            "match-over-unmodified-2",
            &[("If-Match", "\"no\""), ("If-Unmodified-Since", AFTER)],
            failed(),
        ),
        both(
            "match-before-none-match",
            &[("If-Match", "\"no\""), ("If-None-Match", etag)],
            failed(),
        ),
        both("match-then-none-match", &[("If-Match", etag), ("If-None-Match", etag)], unchanged()),
        both(
            "unmodified-before-none-match",
            &[("If-Unmodified-Since", BEFORE), ("If-None-Match", etag)],
            failed(),
        ),
        both(
            "unmodified-then-since",
            &[("If-Unmodified-Since", CHANGED), ("If-Modified-Since", CHANGED)],
            unchanged(),
        ),
        both(
            "condition-before-range",
            &[("If-None-Match", etag), ("Range", "bytes=0-4")],
            unchanged(),
        ),
        both(
            "match-then-range",
            &[("If-Match", etag), ("Range", "bytes=0-4")],
            is(206).body("01234"),
        ),
        both(
            "failed-match-before-range",
            &[("If-Match", "\"no\""), ("Range", "bytes=0-4")],
            failed(),
        ),
        case(
            "if-none-match-of-missing-file",
            "RFC 9110, 13.2.1",
            get("/missing", "If-None-Match: *\r\n"),
            open([is(404)]),
        ),
        case(
            "if-match-of-missing-file",
            "RFC 9110, 13.2.1",
            get("/missing", "If-Match: *\r\n"),
            open([any(&[404, 412])]),
        ),
        case(
            "if-none-match-of-post",
            "RFC 9110, 13.2.1",
            request("POST", "/file.txt", "If-None-Match: *\r\nContent-Length: 0\r\n"),
            open([any(&[405, 412])]),
        ),
        case(
            "if-modified-since-of-directory",
            "RFC 9110, 13.2.1",
            get("/dir", &format!("If-Modified-Since: {AFTER}\r\n")),
            open([any(&[301, 308])]),
        ),
        case(
            "if-modified-since-of-index",
            "RFC 9110, 13.1.3",
            get("/", &format!("If-Modified-Since: {CHANGED}\r\n")),
            open([is(304)]),
        ),
    ]
}
