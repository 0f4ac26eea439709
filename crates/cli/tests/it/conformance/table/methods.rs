//! Methods (RFC 9110, 9).

use crate::conformance::case::{
    Answer, Case, any, as_announced, case, closed, is, open, rejected, request,
};
use crate::conformance::tree::FILE;

pub(crate) fn cases() -> Vec<Case> {
    let not_allowed = || open([is(405).begins("Allow", "GET, HEAD")]);
    let refused = |method: &str| {
        let send = request(method, "/file.txt", "");
        case(format!("method-{method}"), "RFC 9110, 15.5.6", send, not_allowed())
    };
    // An unknown method: 501, or 405 from servers that do not distinguish them.
    let unknown = |method: &str| {
        let send = request(method, "/file.txt", "");
        case(format!("unknown-{method}"), "RFC 9110, 9.1", send, as_announced(any(&[405, 501])))
    };
    let options = |name: &str, target: &str, answer: Answer| {
        case(name, "RFC 9110, 9.3.7", request("OPTIONS", target, ""), open([answer]))
    };
    vec![
        refused("POST"),
        refused("PUT"),
        refused("DELETE"),
        refused("PATCH"),
        refused("TRACE"),
        unknown("BREW"),
        unknown("get"),
        unknown("Get"),
        unknown("GETS"),
        unknown("G"),
        unknown("HEAD2"),
        unknown("PROPFIND"),
        unknown("M-SEARCH"),
        unknown("PRI"),
        unknown("!#$%&'*+-.^_`|~"),
        case(
            "method-of-300-letters",
            "RFC 9110, 9.1",
            request(&"A".repeat(300), "/file.txt", ""),
            as_announced(any(&[400, 405, 414, 501])),
        ),
        options("options-of-file", "/file.txt", any(&[200, 204]).has("Allow")),
        options("options-of-root", "/", any(&[200, 204]).has("Allow")),
        case(
            "delete-of-missing-file",
            "RFC 9110, 9.3.5",
            request("DELETE", "/missing", ""),
            open([any(&[404, 405])]),
        ),
        case(
            "trace-is-not-echoed",
            "RFC 9110, 9.3.8",
            request("TRACE", "/file.txt", "X: this is secret\r\n"),
            open([is(405).without("this is secret")]),
        ),
        case(
            "put-with-body-changes-nothing",
            "RFC 9110, 9.3.4",
            request("PUT", "/file.txt", "Content-Length: 3\r\n")
                + "new"
                + &request("GET", "/file.txt", ""),
            open([is(405), is(200).body(FILE)]),
        ),
        case(
            "override-is-not-heeded",
            "RFC 9110, 9.1",
            request("POST", "/file.txt", "X-HTTP-Method-Override: GET\r\nContent-Length: 0\r\n"),
            open([is(405)]),
        ),
        case(
            "post-in-1.0-without-length",
            "RFC 9112, 6.3",
            "POST /file.txt HTTP/1.0\r\n\r\n",
            closed([is(405)]),
        ),
        case("empty-method", "RFC 9112, 3.1", " /file.txt HTTP/1.1\r\nHost: a\r\n\r\n", {
            rejected(&[400])
        }),
    ]
}
