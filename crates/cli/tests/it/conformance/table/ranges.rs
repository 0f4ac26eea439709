//! Ranges (RFC 9110, 14).

use crate::conformance::case::{Answer, Case, Check, any, case, get, is, open, request};
use crate::conformance::tree::{AFTER, BEFORE, CHANGED, CHANGED_850, FILE, Facts, LARGE, large};

pub(crate) fn cases(facts: &Facts) -> Vec<Case> {
    let etag = facts.etag.as_str();
    let length = FILE.len();
    let whole = || is(200).body(FILE).lacks("Content-Range");
    let part = |start: usize, end: usize| {
        is(206)
            .body(&FILE[start..end])
            .field("Content-Range", format!("bytes {start}-{}/{length}", end - 1))
            .field("Content-Length", (end - start).to_string())
            .begins("Content-Type", "text/plain")
            .field("ETag", etag)
    };
    let unsatisfiable = || is(416).field("Content-Range", format!("bytes */{length}"));
    let of = |name: &str, section, lines: String, answer: Answer| {
        case(format!("range-{name}"), section, get("/file.txt", &lines), open([answer]))
    };
    let range = |name: &str, value: &str, answer| {
        of(name, "RFC 9110, 14.1.2", format!("Range: {value}\r\n"), answer)
    };
    let if_range = |name: &str, value: &str, answer| {
        let lines = format!("Range: bytes=0-4\r\nIf-Range: {value}\r\n");
        of(&format!("if-{name}"), "RFC 9110, 13.1.5", lines, answer)
    };
    let of_large = |name: &str, value: &str, start: usize, end: usize| {
        let answer = is(206)
            .body(&large()[start..end])
            .field("Content-Range", format!("bytes {start}-{}/{LARGE}", end - 1));
        let send = get("/large.bin", &format!("Range: {value}\r\n"));
        case(format!("range-{name}"), "RFC 9110, 14.1.2", send, open([answer]))
    };
    vec![
        range("first-bytes", "bytes=0-4", part(0, 5)),
        range("one-byte", "bytes=0-0", part(0, 1)),
        range("last-byte", "bytes=35-35", part(35, 36)),
        range("middle", "bytes=10-19", part(10, 20)),
        range("open", "bytes=30-", part(30, 36)),
        range("open-last-byte", "bytes=35-", part(35, 36)),
        range("suffix", "bytes=-5", part(31, 36)),
        range("suffix-of-one", "bytes=-1", part(35, 36)),
        range("all", "bytes=0-", part(0, 36)),
        range("all-closed", "bytes=0-35", part(0, 36)),
        range("clamped", "bytes=30-999", part(30, 36)),
        range("clamped-suffix", "bytes=-999", part(0, 36)),
        range("clamped-beyond-64-bits", "bytes=30-99999999999999999999", part(30, 36)),
        range("upper-case-unit", "BYTES=0-4", part(0, 5)),
        range("with-zeros", "bytes=000-0004", part(0, 5)),
        range("beyond", "bytes=36-", unsatisfiable()),
        range("far-beyond", "bytes=900-999", unsatisfiable()),
        range("beyond-64-bits", "bytes=99999999999999999999-", unsatisfiable()),
        range("suffix-of-none", "bytes=-0", unsatisfiable()),
        range("several-all-beyond", "bytes=36-,40-50", unsatisfiable()),
        range("several-suffixes-of-none", "bytes=-0,-0", unsatisfiable()),
        range("one-of-two-beyond", "bytes=0-4,900-", part(0, 5)),
        range("two-that-overlap", "bytes=0-9,5-14", part(0, 15)),
        range("two-that-touch", "bytes=0-4,5-9", part(0, 10)),
        range("two-that-touch-backwards", "bytes=5-9,0-4", part(0, 10)),
        range("two-alike", "bytes=3-5,3-5", part(3, 6)),
        range("two-of-which-one-within-the-other", "bytes=0-,-5", part(0, 36)),
        range("list-with-one-element", "bytes=,0-4,", part(0, 5)),
        range("list-of-commas", "bytes=,,", whole()),
        range("other-unit", "lines=0-4", whole()),
        range("no-unit", "0-4", whole()),
        range("no-equals", "bytes 0-4", whole()),
        range("empty-set", "bytes=", whole()),
        range("dash-only", "bytes=-", whole()),
        range("two-dashes", "bytes=--5", whole()),
        range("backwards", "bytes=4-0", whole()),
        range("letters", "bytes=a-b", whole()),
        range("plus", "bytes=+0-4", whole()),
        range("hexadecimal", "bytes=0x0-0x4", whole()),
        range("decimal-point", "bytes=0.0-4.0", whole()),
        range("space-within", "bytes=0 - 4", whole()),
        range("no-dash", "bytes=5", whole()),
        range("three-numbers", "bytes=0-1-2", whole()),
        range("one-of-two-is-bad", "bytes=0-1,x-y", whole()),
        range("semicolon", "bytes=0-1;2-3", whole()),
        if_range("same-tag", etag, part(0, 5)),
        if_range("other-tag", "\"other\"", whole()),
        if_range("weak-tag", &format!("W/{etag}"), whole()),
        if_range("star", "*", whole()),
        if_range("list", &format!("{etag}, {etag}"), whole()),
        if_range("same-date", CHANGED, part(0, 5)),
        if_range("same-date-rfc-850", CHANGED_850, part(0, 5)),
        if_range("later-date", AFTER, whole()),
        if_range("earlier-date", BEFORE, whole()),
        if_range("no-date", "yesterday", whole()),
        of(
            "if-other-tag-beyond",
            "RFC 9110, 13.1.5",
            "Range: bytes=900-\r\nIf-Range: \"other\"\r\n".to_owned(),
            whole(),
        ),
        of("if-without-range", "RFC 9110, 13.1.5", format!("If-Range: {etag}\r\n"), whole()),
        case(
            "range-of-post",
            "RFC 9110, 14.2",
            request("POST", "/file.txt", "Range: bytes=0-4\r\nContent-Length: 0\r\n"),
            open([is(405)]),
        ),
        case(
            "range-of-missing-file",
            "RFC 9110, 14.2",
            get("/missing", "Range: bytes=0-4\r\n"),
            open([is(404).lacks("Content-Range")]),
        ),
        case(
            "range-of-directory",
            "RFC 9110, 14.2",
            get("/dir", "Range: bytes=0-4\r\n"),
            open([any(&[301, 308]).lacks("Content-Range")]),
        ),
        case(
            "range-of-empty-file",
            "RFC 9110, 14.1.2",
            get("/empty.txt", "Range: bytes=0-\r\n"),
            open([any(&[200, 416])]),
        ),
        case(
            "suffix-of-empty-file",
            "RFC 9110, 14.1.2",
            get("/empty.txt", "Range: bytes=-5\r\n"),
            open([any(&[200, 416])]),
        ),
        of_large("within-a-block", "bytes=1000-1999", 1000, 2000),
        of_large("across-a-block's-edge", "bytes=131070-131075", 131_070, 131_076),
        of_large("of-several-blocks", "bytes=100000-299999", 100_000, 300_000),
        of_large("at-a-block's-start", "bytes=131072-", 131_072, LARGE),
        of_large("last-of-large", "bytes=-1", LARGE - 1, LARGE),
        multiple_ranges("two-parts", "bytes=0-1,10-11", "", etag, &[(0, 2), (10, 12)]),
        multiple_ranges("two-with-suffix", "bytes=0-1,-2", "", etag, &[(0, 2), (34, 36)]),
        multiple_ranges("two-with-spaces", "bytes= 0-1 , 10-11 ", "", etag, &[(0, 2), (10, 12)]),
        multiple_ranges(
            "two-with-empty-elements",
            "bytes=,0-1,,10-11,",
            "",
            etag,
            &[(0, 2), (10, 12)],
        ),
        multiple_ranges("two-backwards", "bytes=10-11,0-1", "", etag, &[(10, 12), (0, 2)]),
        multiple_ranges(
            "two-of-which-one-clamped",
            "bytes=0-1,30-999",
            "",
            etag,
            &[(0, 2), (30, 36)],
        ),
        multiple_ranges("two-open-and-closed", "bytes=30-,0-0", "", etag, &[(30, 36), (0, 1)]),
        multiple_ranges(
            "three-of-which-one-beyond",
            "bytes=0-1,99-,10-11",
            "",
            etag,
            &[(0, 2), (10, 12)],
        ),
        multiple_ranges(
            "four-that-become-two",
            "bytes=0-1,20-25,2-3,22-29",
            "",
            etag,
            &[(0, 4), (20, 30)],
        ),
        multiple_ranges("two-upper-case-unit", "BYTES=0-1,10-11", "", etag, &[(0, 2), (10, 12)]),
        multiple_ranges("most-parts", &list(16), "", etag, &suffix_ranges(16)),
        multiple_ranges(
            "several-if-same-tag",
            "bytes=0-1,10-11",
            &tagged(etag),
            etag,
            &[(0, 2), (10, 12)],
        ),
        multiple_ranges(
            "several-if-same-date",
            "bytes=0-1,10-11",
            &tagged(CHANGED),
            etag,
            &[(0, 2), (10, 12)],
        ),
        multiple_ranges(
            "behind-conditions-that-hold",
            "bytes=0-1,10-11",
            &format!("If-Match: {etag}\r\nIf-None-Match: \"no\"\r\n"),
            etag,
            &[(0, 2), (10, 12)],
        ),
        of(
            "several-if-other-tag",
            "RFC 9110, 13.1.5",
            format!("Range: bytes=0-1,10-11\r\n{}", tagged("\"other\"")),
            whole(),
        ),
        of(
            "several-all-beyond-if-other-tag",
            "RFC 9110, 13.1.5",
            format!("Range: bytes=99-,88-\r\n{}", tagged("\"other\"")),
            whole(),
        ),
        of(
            "several-behind-not-modified",
            "RFC 9110, 13.2.2",
            format!("Range: bytes=0-1,10-11\r\nIf-None-Match: {etag}\r\n"),
            is(304).lacks("Content-Type").lacks("Content-Range"),
        ),
        of(
            "several-behind-failed-match",
            "RFC 9110, 13.2.2",
            "Range: bytes=0-1,10-11\r\nIf-Match: \"no\"\r\n".to_owned(),
            is(412).lacks("Content-Range"),
        ),
        case(
            "range-several-of-head",
            "RFC 9110, 14.2",
            request("HEAD", "/file.txt", "Range: bytes=0-1,10-11\r\n"),
            open([whole_head()]),
        ),
        case(
            "range-several-of-missing-file",
            "RFC 9110, 14.2",
            get("/missing", "Range: bytes=0-1,10-11\r\n"),
            open([is(404).lacks("Content-Range")]),
        ),
        case(
            "range-several-then-get",
            "RFC 9110, 14.6",
            get("/file.txt", "Range: bytes=0-1,10-11\r\n") + &get("/file.txt", ""),
            open([in_parts(FILE.as_bytes(), &[(0, 2), (10, 12)]), whole()]),
        ),
        case(
            "range-several-over-blocks",
            "RFC 9110, 14.6",
            get("/large.bin", "Range: bytes=131000-131199,0-9,-7\r\n"),
            open([in_parts(&large(), &[(131_000, 131_200), (0, 10), (LARGE - 7, LARGE)])]),
        ),
        case(
            "range-two-on-two-lines",
            "RFC 9110, 5.3",
            get("/file.txt", "Range: bytes=0-4\r\nRange: bytes=5-6\r\n"),
            open([whole()]),
        ),
        // Too many ranges: the whole file, once (as a server may).
        range("seventeen", &list(17), whole()),
        range("thousand-tiny", &format!("bytes={}", vec!["0-0"; 1000].join(",")), whole()),
        case(
            "range-many-overlapping",
            "RFC 9110, 17.15",
            get("/large.bin", &format!("Range: {}\r\n", overlapping(200))),
            open([is(200).field("Content-Length", LARGE.to_string())]),
        ),
        case(
            "range-sixteen-overlapping",
            "RFC 9110, 17.15",
            get("/large.bin", &format!("Range: {}\r\n", overlapping(16))),
            open([is(206).field("Content-Length", LARGE.to_string()).has("Content-Range")]),
        ),
    ]
}

/// `count` ranges, of every other byte.
fn list(count: usize) -> String {
    let ranges: Vec<_> =
        suffix_ranges(count).iter().map(|(start, _)| format!("{start}-{start}")).collect();
    format!("bytes={}", ranges.join(","))
}

fn suffix_ranges(count: usize) -> Vec<(usize, usize)> {
    (0..count).map(|n| (2 * n, 2 * n + 1)).collect()
}

fn overlapping(count: usize) -> String {
    format!("bytes={}", (0..count).map(|at| format!("{at}-")).collect::<Vec<_>>().join(","))
}

fn tagged(state: &str) -> String {
    format!("If-Range: {state}\r\n")
}

fn whole_head() -> Answer {
    is(200).headless().field("Content-Length", FILE.len().to_string()).lacks("Content-Range")
}

/// These parts of `content`, in this order.
fn in_parts(content: &[u8], parts: &[(usize, usize)]) -> Answer {
    let part = |&(start, end): &(usize, usize)| {
        let range = format!("bytes {start}-{}/{}", end - 1, content.len());
        (range, content[start..end].to_vec())
    };
    let mut answer = is(206).lacks("Content-Range");
    answer.checks.push(Check::Parts(parts.iter().map(part).collect()));
    answer
}

/// Several ranges of `/file.txt`, with additional field lines.
fn multiple_ranges(
    name: &str,
    value: &str,
    lines: &str,
    etag: &str,
    parts: &[(usize, usize)],
) -> Case {
    let answer = in_parts(FILE.as_bytes(), parts).field("ETag", etag);
    let send = get("/file.txt", &format!("Range: {value}\r\n{lines}"));
    case(format!("range-{name}"), "RFC 9110, 14.6", send, open([answer]))
}
