//! Several requests on one connection, with the bytes split anywhere (RFC 9112, 9.3.2).

use crate::conformance::case::{Case, Pieces, any, case, closed, get, is, open, request};
use crate::conformance::tree::{FILE, large};

pub(crate) fn cases() -> Vec<Case> {
    let section = "RFC 9112, 9.3.2";
    let file = || is(200).body(FILE);
    let missing = || is(404);
    // One of each kind, including bodies after which the next request must be found.
    let mixed = [
        get("/file.txt?a=b", ""),
        request("POST", "/file.txt", "Transfer-Encoding: chunked\r\n") + "3\r\nabc\r\n0\r\n\r\n",
        request("HEAD", "/file.txt", ""),
        request("GET", "/missing", "Content-Length: 5\r\n") + "hello",
    ]
    .concat();
    let mixed_answers = || open([file(), is(405), is(200).headless(), missing()]);
    vec![
        case("two-in-one-write", section, get("/file.txt", "").repeat(2), open([file(), file()])),
        case(
            "hundred-in-one-write",
            section,
            get("/file.txt", "").repeat(100),
            open(vec![file(); 100]),
        ),
        case(
            "found-and-missing-in-turn",
            section,
            (get("/file.txt", "") + &get("/missing", "")).repeat(10),
            open(vec![[file(), missing()]; 10].concat()),
        ),
        case(
            "large-between-small",
            section,
            get("/file.txt", "") + &get("/large.bin", "") + &get("/file.txt", ""),
            open([file(), is(200).body(large()), file()]),
        ),
        case(
            "three-large",
            section,
            get("/large.bin", "").repeat(3),
            open(vec![is(200).body(large()); 3]),
        ),
        case("mixed-in-one-write", section, &mixed, mixed_answers()),
        case("mixed-byte-by-byte", "RFC 9112, 2.2", &mixed, mixed_answers())
            .in_pieces(Pieces::Bytes),
        case("mixed-cut-at-every-byte", "RFC 9112, 2.2", &mixed, mixed_answers())
            .in_pieces(Pieces::EachCut),
        case("one-byte-by-byte", "RFC 9112, 2.2", get("/file.txt", "X: y\r\n"), open([file()]))
            .in_pieces(Pieces::Bytes),
        case(
            "bad-one-cut-at-every-byte",
            "RFC 9112, 9.3.2",
            get("/file.txt", "") + &get("/file.txt", "X : y\r\n"),
            closed([file(), is(400)]),
        )
        .in_pieces(Pieces::EachCut),
        case(
            "smuggling-try-cut-at-every-byte",
            "RFC 9112, 6.1",
            request("POST", "/file.txt", "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n")
                + "0\r\n\r\n",
            closed([is(400)]),
        )
        .in_pieces(Pieces::EachCut),
        case(
            "error-ends-it",
            section,
            get("/file.txt", "") + &get("/file.txt", "X : y\r\n") + &get("/file.txt", ""),
            closed([file(), is(400)]),
        ),
        case(
            "error-behind-large",
            section,
            get("/large.bin", "") + "nonsense\r\n\r\n",
            closed([is(200).body(large()), is(400)]),
        ),
        case(
            "nothing-behind-close",
            "RFC 9112, 9.6",
            get("/file.txt", "Connection: close\r\n") + &get("/file.txt", ""),
            closed([file()]),
        ),
        case(
            "close-as-the-second",
            "RFC 9112, 9.6",
            get("/file.txt", "") + &get("/file.txt", "Connection: close\r\n"),
            closed([file(), file()]),
        ),
        case(
            "nothing-behind-1.0",
            "RFC 9112, 9.3",
            format!("GET /file.txt HTTP/1.0\r\n\r\n{}", get("/file.txt", "")),
            closed([file()]),
        ),
        case(
            "empty-line-between",
            "RFC 9112, 2.2",
            format!("{}\r\n{}", get("/file.txt", ""), get("/file.txt", "")),
            open([file(), file()]),
        ),
        case(
            "body-then-empty-line",
            "RFC 9112, 2.2",
            request("POST", "/file.txt", "Content-Length: 5\r\n")
                + "hello\r\n"
                + &get("/file.txt", ""),
            open([is(405), file()]),
        ),
        case(
            "body-longer-than-its-length",
            "RFC 9112, 6.3",
            request("POST", "/file.txt", "Content-Length: 5\r\n") + "hello, world\r\n\r\n",
            closed([is(405), is(400)]),
        ),
        case(
            "get-behind-chunks",
            "RFC 9112, 7.1",
            request("POST", "/file.txt", "Transfer-Encoding: chunked\r\n")
                + "0\r\n\r\n"
                + &get("/file.txt", ""),
            open([is(405), file()]),
        ),
        case(
            "large-body-then-get",
            "RFC 9112, 6.3",
            request("POST", "/file.txt", "Content-Length: 60000\r\n")
                + &"x".repeat(60_000)
                + &get("/file.txt", ""),
            open([is(405), file()]),
        ),
        case(
            "many-chunks-then-get",
            "RFC 9112, 7.1",
            request("POST", "/file.txt", "Transfer-Encoding: chunked\r\n")
                + &"1\r\nx\r\n".repeat(5000)
                + "0\r\n\r\n"
                + &get("/file.txt", ""),
            open([is(405), file()]),
        ),
        case(
            "options-between",
            section,
            request("OPTIONS", "*", "") + &get("/file.txt", ""),
            open([any(&[200, 204]), file()]),
        ),
        case(
            "not-modified-between",
            section,
            get("/file.txt", "If-None-Match: *\r\n") + &get("/file.txt", ""),
            open([is(304), file()]),
        ),
        case(
            "half-closed-behind-one",
            "RFC 9112, 9.6",
            get("/file.txt", "Connection: close\r\n"),
            closed([file()]),
        )
        .in_pieces(Pieces::HalfClosed),
        case(
            "half-closed-behind-three",
            "RFC 9112, 9.6",
            get("/file.txt", "").repeat(2) + &get("/large.bin", "Connection: close\r\n"),
            closed([file(), file(), is(200).body(large())]),
        )
        .in_pieces(Pieces::HalfClosed),
        case(
            "half-closed-within-a-head",
            "RFC 9112, 8",
            "GET /file.txt HTTP/1.1\r\nHo",
            closed([]),
        )
        .in_pieces(Pieces::HalfClosed),
        case("half-closed-at-once", "RFC 9112, 9.6", "", closed([])).in_pieces(Pieces::HalfClosed),
        case(
            "half-closed-without-saying-close",
            "RFC 9112, 9.6",
            get("/file.txt", ""),
            closed([file()]),
        )
        .in_pieces(Pieces::HalfClosed)
        .unannounced(),
        case(
            "half-closed-within-a-body",
            "RFC 9112, 8",
            request("POST", "/file.txt", "Content-Length: 50\r\n") + "hello",
            closed([any(&[400, 405])]),
        )
        .in_pieces(Pieces::HalfClosed)
        .unannounced(),
    ]
}
