//! `Expect: 100-continue` (RFC 9110, 10.1.1).

use crate::conformance::case::{
    Answer, Case, End, Requirements, any, as_announced, case, closed, get, is, open, request,
};
use crate::conformance::tree::FILE;

pub(crate) fn cases() -> Vec<Case> {
    let section = "RFC 9110, 10.1.1";
    // The final response without a 100. Since the client may send the body or not, the connection ends there,
    // unless the server requests the body with a 100.
    let at_once = |answer: Answer| closed([answer]);
    vec![
        case(
            "continue-without-body",
            section,
            get("/file.txt", "Expect: 100-continue\r\n"),
            open([is(200).body(FILE)]),
        ),
        case(
            "continue-with-length-zero",
            section,
            request("POST", "/file.txt", "Expect: 100-continue\r\nContent-Length: 0\r\n"),
            open([is(405)]),
        ),
        case(
            "continue-for-a-body-not-wanted",
            section,
            request("POST", "/file.txt", "Expect: 100-continue\r\nContent-Length: 5\r\n"),
            at_once(any(&[405, 417])),
        ),
        case(
            "continue-for-a-body-too-large",
            section,
            request("POST", "/file.txt", "Expect: 100-continue\r\nContent-Length: 99999999\r\n"),
            at_once(any(&[405, 413, 417])),
        ),
        case(
            "continue-for-chunks-not-wanted",
            section,
            request("PUT", "/file.txt", "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n"),
            at_once(any(&[405, 417])),
        ),
        case(
            "continue-of-get-with-body",
            section,
            request("GET", "/file.txt", "Expect: 100-continue\r\nContent-Length: 5\r\n"),
            at_once(is(200).body(FILE)),
        ),
        case(
            "continue-any-case",
            section,
            request("POST", "/file.txt", "Expect: 100-Continue\r\nContent-Length: 5\r\n"),
            at_once(any(&[405, 417])),
        ),
        case(
            "continue-in-1.0-is-not-heeded",
            section,
            "GET /file.txt HTTP/1.0\r\nExpect: 100-continue\r\n\r\n",
            closed([is(200).body(FILE)]),
        ),
        case(
            "body-sent-without-waiting",
            section,
            request("POST", "/file.txt", "Expect: 100-continue\r\nContent-Length: 5\r\n") + "hello",
            Requirements { answers: vec![any(&[405, 417])], end: End::AsAnnounced },
        ),
        case(
            "unknown-expectation",
            section,
            get("/file.txt", "Expect: the-unexpected\r\n"),
            as_announced(any(&[200, 417])),
        ),
        case(
            "unknown-beside-known",
            section,
            get("/file.txt", "Expect: 100-continue, x\r\n"),
            as_announced(any(&[200, 417])),
        ),
        case(
            "unknown-with-value",
            section,
            get("/file.txt", "Expect: x=y\r\n"),
            as_announced(any(&[200, 417])),
        ),
        case(
            "empty-expectation",
            section,
            get("/file.txt", "Expect:\r\n"),
            as_announced(any(&[200, 417])),
        ),
    ]
}
