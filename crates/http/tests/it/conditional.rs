//! Conditions and ranges in complete requests. Section numbers refer to RFC 9110.

use phalanx_http::{Limits, Outcome, Parse, Ranged, Validators, evaluate, parse, range};

const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
const MODIFIED: u64 = 784_111_777;

/// A request with these lines, in which names and dates are abbreviated.
fn head(method: &str, lines: &str) -> String {
    let mut head = format!("{method} / HTTP/1.1\r\nHost: a\r\n");
    for line in lines.split('|').filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(' ').unwrap();
        let name = match name {
            "IM" => "If-Match",
            "INM" => "If-None-Match",
            "IMS" => "If-Modified-Since",
            "IUS" => "If-Unmodified-Since",
            "IR" => "If-Range",
            name => name,
        };
        let value = match value {
            "before" => BEFORE,
            "same" => SAME,
            "after" => AFTER,
            value => value,
        };
        head += &format!("{name}: {value}\r\n");
    }
    head + "\r\n"
}

#[test]
fn conditions() {
    use Outcome::{NotModified, PreconditionFailed, Proceed};
    let strong = "\"a\"";
    let weak = "W/\"a\"";
    // (current tag, method, lines, outcome, reason)
    let table: &[(&str, &str, &str, Outcome, &str)] = &[
        (strong, "GET", "", Proceed, "no conditions"),
        (strong, "GET", "INM \"a\"", NotModified, "13.1.2"),
        (strong, "HEAD", "INM \"a\"", NotModified, "13.1.2"),
        (strong, "GET", "INM W/\"a\"", NotModified, "13.1.2: weak comparison"),
        (weak, "GET", "INM \"a\"", NotModified, "13.1.2: weak comparison"),
        (weak, "GET", "INM W/\"a\"", NotModified, "13.1.2: weak comparison"),
        (strong, "GET", "INM \"b\", W/\"a\", \"c\"", NotModified, "13.1.2: a list"),
        (strong, "GET", "INM \"b\"|INM \"a\"", NotModified, "5.3: a list over two lines"),
        (strong, "GET", "INM \"b\"", Proceed, "13.1.2"),
        (strong, "GET", "INM \"A\"", Proceed, "8.8.3.2: byte by byte"),
        (strong, "GET", "INM a", Proceed, "8.8.3: a tag has quotes"),
        (strong, "GET", "INM *", NotModified, "13.1.2: anything"),
        ("", "GET", "INM *", NotModified, "13.1.2: anything, even without a tag"),
        ("", "GET", "INM \"a\"", Proceed, "13.1.2: no tag matches none"),
        (strong, "PUT", "INM *", PreconditionFailed, "13.1.2: for other methods 412"),
        (strong, "PUT", "INM \"a\"", PreconditionFailed, "13.1.2: for other methods 412"),
        (strong, "PUT", "INM \"b\"", Proceed, "13.1.2"),
        (strong, "GET", "IMS same", NotModified, "13.1.3"),
        (strong, "GET", "IMS after", NotModified, "13.1.3"),
        (strong, "GET", "IMS before", Proceed, "13.1.3"),
        (strong, "GET", "IMS yesterday", Proceed, "13.1.3: no date, no condition"),
        (strong, "GET", "IMS same|IMS same", Proceed, "5.3: two dates are none"),
        (strong, "PUT", "IMS same", Proceed, "13.1.3: only for GET and HEAD"),
        (strong, "GET", "INM \"b\"|IMS same", Proceed, "13.2.2: the tag goes before the date"),
        (
            strong,
            "GET",
            "INM \"a\"|IMS before",
            NotModified,
            "13.2.2: the tag goes before the date",
        ),
        (strong, "GET", "IM \"a\"", Proceed, "13.1.1"),
        (strong, "GET", "IM \"b\"", PreconditionFailed, "13.1.1"),
        (strong, "GET", "IM \"b\", \"a\"", Proceed, "13.1.1: a list"),
        (strong, "GET", "IM \"b\"|IM \"a\"", Proceed, "5.3: a list over two lines"),
        (strong, "GET", "IM W/\"a\"", PreconditionFailed, "13.1.1: strong comparison"),
        (weak, "GET", "IM \"a\"", PreconditionFailed, "13.1.1: strong comparison"),
        (weak, "GET", "IM W/\"a\"", PreconditionFailed, "13.1.1: strong comparison"),
        (weak, "GET", "IM *", Proceed, "13.1.1: anything"),
        (strong, "GET", "IM a", PreconditionFailed, "13.1.1: no tag matches nothing"),
        (strong, "GET", "IUS same", Proceed, "13.1.4"),
        (strong, "GET", "IUS after", Proceed, "13.1.4"),
        (strong, "GET", "IUS before", PreconditionFailed, "13.1.4"),
        (strong, "GET", "IUS yesterday", Proceed, "13.1.4: no date, no condition"),
        (strong, "GET", "IM \"a\"|IUS before", Proceed, "13.2.2: the tag goes before the date"),
        (strong, "GET", "IM \"b\"|IUS after", PreconditionFailed, "13.2.2"),
        (strong, "GET", "IM \"a\"|INM \"a\"", NotModified, "13.2.2: then the other pair"),
        (strong, "GET", "IM \"b\"|INM \"a\"", PreconditionFailed, "13.2.2: the first pair decides"),
        (strong, "GET", "IUS same|IMS same", NotModified, "13.2.2: then the other pair"),
    ];
    for (etag, method, lines, expected, reason) in table {
        let head = head(method, lines);
        let Ok(Parse::Complete(request, _)) = parse(head.as_bytes(), &Limits::default()) else {
            panic!("{head:?}")
        };
        let found = evaluate(&request, &Validators { etag, modified: MODIFIED });
        assert_eq!(found, *expected, "{etag} {method} {lines}: {reason}");
    }
}

#[test]
fn ranges() {
    use Ranged::{Full, Unsatisfiable};
    let part = || Ranged::Partial { start: 0, end: 10 };
    // (current tag, method, lines, part(), reason)
    let table: &[(&str, &str, &str, Ranged, &str)] = &[
        ("\"a\"", "GET", "", Full, "14.2: not asked for"),
        ("\"a\"", "GET", "Range bytes=0-9", part(), "14.2"),
        ("\"a\"", "GET", "Range bytes=100-", Unsatisfiable, "15.5.17"),
        ("\"a\"", "HEAD", "Range bytes=0-9", Full, "14.2: only for GET"),
        ("\"a\"", "POST", "Range bytes=0-9", Full, "14.2: only for GET"),
        ("\"a\"", "GET", "Range bytes=0-9|Range bytes=0-9", Full, "5.3: two are none"),
        ("\"a\"", "GET", "Range bytes=0-9|IR \"a\"", part(), "13.1.5"),
        ("\"a\"", "GET", "Range bytes=0-9|IR \"b\"", Full, "13.1.5: stale"),
        ("\"a\"", "GET", "Range bytes=100-|IR \"b\"", Full, "13.1.5: stale, so never 416"),
        ("\"a\"", "GET", "Range bytes=0-9|IR W/\"a\"", Full, "13.1.5: strong comparison"),
        ("W/\"a\"", "GET", "Range bytes=0-9|IR W/\"a\"", Full, "13.1.5: strong comparison"),
        ("W/\"a\"", "GET", "Range bytes=0-9|IR \"a\"", Full, "13.1.5: strong comparison"),
        ("", "GET", "Range bytes=0-9|IR \"a\"", Full, "13.1.5: no tag matches none"),
        ("\"a\"", "GET", "Range bytes=0-9|IR \"a\", \"b\"", Full, "13.1.5: one tag, no list"),
        ("\"a\"", "GET", "Range bytes=0-9|IR same", part(), "13.1.5: exactly its date"),
        ("W/\"a\"", "GET", "Range bytes=0-9|IR same", Full, "8.8.2.2: a weak date"),
        ("", "GET", "Range bytes=0-9|IR same", part(), "13.1.5: a date without a tag"),
        ("\"a\"", "GET", "Range bytes=0-9|IR before", Full, "13.1.5: an older date"),
        ("\"a\"", "GET", "Range bytes=0-9|IR after", Full, "13.1.5: a newer date, too"),
        ("\"a\"", "GET", "Range bytes=0-9|IR *", Full, "13.1.5: no asterisk"),
        ("\"a\"", "GET", "Range bytes=0-9|IR \"a\"|IR \"a\"", Full, "5.3: two are none"),
    ];
    for (etag, method, lines, expected, reason) in table {
        let head = head(method, lines);
        let Ok(Parse::Complete(request, _)) = parse(head.as_bytes(), &Limits::default()) else {
            panic!("{head:?}")
        };
        let found = range::resolve(&request, &Validators { etag, modified: MODIFIED }, 100);
        assert_eq!(found, *expected, "{etag} {method} {lines}: {reason}");
    }
}
