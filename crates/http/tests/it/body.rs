//! Discarding bodies. Section numbers refer to RFC 9112.

use phalanx_http::{Body, BodyParser, Limits};

/// Bytes consumed of a chunked body, or the status of the rejection; `None` if it is incomplete.
type Found = Result<Option<usize>, u16>;

fn read(bytes: &[u8], limits: &Limits) -> Found {
    let mut parser = BodyParser::new(Body::Chunked, limits).map_err(|e| e.status.code())?;
    let consumed = parser.feed(bytes).map_err(|e| e.status.code())?;
    Ok(parser.is_done().then_some(consumed))
}

#[test]
fn chunks() {
    // (bytes, consumed bytes or status, reason)
    let table: &[(&str, Found, &str)] = &[
        ("0\r\n\r\n", Ok(Some(5)), "7.1: nothing but the last chunk"),
        ("5\r\nhello\r\n0\r\n\r\n", Ok(Some(15)), "7.1"),
        ("5\r\nhello\r\n0\r\n\r\nGET /", Ok(Some(15)), "7.1: the rest is the next request"),
        ("a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n", Ok(Some(35)), "7.1: either case"),
        ("0005\r\nhello\r\n000\r\n\r\n", Ok(Some(20)), "7.1: leading zeros"),
        ("2\r\n\r\n\r\n0\r\n\r\n", Ok(Some(12)), "7.1: data may look like line ends"),
        ("5;a=b\r\nhello\r\n0;c\r\n\r\n", Ok(Some(21)), "7.1.1: extensions are ignored"),
        ("5 ;a=\"b;c\"\r\nhello\r\n0\r\n\r\n", Ok(Some(24)), "7.1.1: white space before them"),
        ("0\r\nX: y\r\nZ:\r\n\r\n", Ok(Some(15)), "7.1.2: trailers are ignored"),
        ("5\r\nhel", Ok(None), "goes on"),
        ("", Ok(None), "goes on"),
        ("0\r\n\r", Ok(None), "goes on"),
        ("\r\n", Err(400), "7.1: no size"),
        (" 5\r\nhello\r\n0\r\n\r\n", Err(400), "7.1: white space before the size"),
        ("5 \r\nhello\r\n", Err(400), "7.1: white space after the size"),
        ("+5\r\nhello\r\n", Err(400), "7.1: a sign"),
        ("-1\r\n", Err(400), "7.1: a sign"),
        ("0x5\r\nhello\r\n", Err(400), "7.1: a prefix"),
        ("g\r\n", Err(400), "7.1: not hexadecimal"),
        ("5_0\r\n", Err(400), "7.1: not hexadecimal"),
        ("ffffffffffffffff\r\n", Err(413), "7.1: very large"),
        ("10000000000000005\r\nhello\r\n", Err(400), "7.1: overflow"),
        ("00000000000000000\r\n\r\n", Err(400), "7.1: too many digits"),
        ("5\nhello\r\n0\r\n\r\n", Err(400), "7.1: bare LF after the size"),
        ("5\rhello\r\n", Err(400), "7.1: bare CR after the size"),
        ("5;a;b=c;d=\"e\"\r\nhello\r\n0\r\n\r\n", Ok(Some(27)), "7.1.1: several"),
        ("0 \t; \ta \t= \tb \t; c\r\n\r\n", Ok(Some(22)), "7.1.1: bad white space is accepted"),
        ("0;a=\"\"\r\n\r\n", Ok(Some(10)), "RFC 9110, 5.6.4: an empty string"),
        ("0;a=\"\\\"\\\\\t\u{e9}\"\r\n\r\n", Ok(Some(17)), "RFC 9110, 5.6.4: escapes, obs-text"),
        ("0;!#$%&'*+-.^_`|~=1\r\n\r\n", Ok(Some(23)), "RFC 9110, 5.6.2: a token"),
        ("5;\r\nhello\r\n0\r\n\r\n", Err(400), "7.1.1: no name"),
        ("5; \r\nhello\r\n0\r\n\r\n", Err(400), "7.1.1: no name"),
        ("5;;a\r\nhello\r\n0\r\n\r\n", Err(400), "7.1.1: no name"),
        ("5;a;\r\nhello\r\n0\r\n\r\n", Err(400), "7.1.1: no name"),
        ("5;=b\r\nhello\r\n0\r\n\r\n", Err(400), "7.1.1: no name"),
        ("5;\"a\"\r\nhello\r\n0\r\n\r\n", Err(400), "7.1.1: a name is a token"),
        ("5;bad[=x\r\nhello\r\n0\r\n\r\n", Err(400), "7.1.1: a name is a token"),
        ("5;a b\r\nhello\r\n0\r\n\r\n", Err(400), "7.1.1: two words"),
        ("5;a=\r\nhello\r\n0\r\n\r\n", Err(400), "7.1.1: no value"),
        ("5;a= \r\nhello\r\n0\r\n\r\n", Err(400), "7.1.1: no value"),
        ("5;a==b\r\nhello\r\n0\r\n\r\n", Err(400), "7.1.1: a value is a token"),
        ("5;a=b=c\r\nhello\r\n0\r\n\r\n", Err(400), "7.1.1: one value"),
        ("5;a=b c\r\nhello\r\n0\r\n\r\n", Err(400), "7.1.1: one value"),
        ("5;a=b,c\r\nhello\r\n0\r\n\r\n", Err(400), "7.1.1: a value is a token"),
        ("5;a=b\"c\"\r\nhello\r\n0\r\n\r\n", Err(400), "7.1.1: a token or a string"),
        ("5;a=\"b\"c\r\nhello\r\n0\r\n\r\n", Err(400), "7.1.1: a token or a string"),
        ("5;a=\"b\"\"c\"\r\nhello\r\n0\r\n\r\n", Err(400), "7.1.1: one string"),
        ("5;a=\"b\r\nhello\r\n0\r\n\r\n", Err(400), "7.1.1: a string without an end"),
        ("5;a=\"b\\\r\nhello\r\n0\r\n\r\n", Err(400), "RFC 9110, 5.6.4: CR cannot be escaped"),
        ("5;a=\"\u{7f}\"\r\nhello\r\n0\r\n\r\n", Err(400), "RFC 9110, 5.6.4: a control"),
        ("5;a \r\nhello\r\n0\r\n\r\n", Err(400), "7.1.1: white space before the line end"),
        ("5;a=b \r\nhello\r\n0\r\n\r\n", Err(400), "7.1.1: white space before the line end"),
        ("5\t\r\nhello\r\n0\r\n\r\n", Err(400), "7.1.1: white space before the line end"),
        ("5;\u{e9}\r\nhello\r\n0\r\n\r\n", Err(400), "7.1.1: a name is a token"),
        ("5;a\nhello\r\n0\r\n\r\n", Err(400), "7.1.1: bare LF in an extension"),
        ("5;a=\"b\n\"\r\nhello\r\n", Err(400), "7.1.1: bare LF in a string"),
        ("5;\0\r\nhello\r\n", Err(400), "7.1.1: a control in an extension"),
        ("5;a\rb\r\nhello\r\n", Err(400), "7.1.1: bare CR in an extension"),
        ("5\r\nhello0\r\n\r\n", Err(400), "7.1: no line end after the data"),
        ("5\r\nhello\n0\r\n\r\n", Err(400), "7.1: bare LF after the data"),
        ("5\r\nhello\rX0\r\n\r\n", Err(400), "7.1: bare CR after the data"),
        ("0\r\nX: y\rz\r\n\r\n", Err(400), "2.2: bare CR in a trailer"),
        ("0\r\nX: y\r\r\n\r\n", Err(400), "2.2: bare CR in a trailer"),
        ("5\r\nhello!\r\n0\r\n\r\n", Err(400), "7.1: data longer than its size"),
        ("5\r\nhell\r\n0\r\n\r\n", Err(400), "7.1: data shorter than its size"),
        ("0\r\n\n", Err(400), "7.1: bare LF at the end"),
        ("0\n\n", Err(400), "7.1: bare LF at the end"),
        ("0\r\n\rX", Err(400), "7.1: bare CR at the end"),
        ("0\r\nX\r\n\r\n", Err(400), "7.1.2: no colon"),
        ("0\r\n: y\r\n\r\n", Err(400), "7.1.2: empty name"),
        ("0\r\nX : y\r\n\r\n", Err(400), "5.1: white space before the colon"),
        ("0\r\nX: y\r\n z\r\n\r\n", Err(400), "5.2: folded"),
        ("0\r\nX: y\n\r\n", Err(400), "2.2: bare LF in a trailer"),
        ("0\r\nX: \0\r\n\r\n", Err(400), "RFC 9110, 5.5: NUL"),
        ("0\r\nContent-Length: 5\r\n\r\n", Err(400), "RFC 9110, 6.5.1: framing"),
        ("0\r\nA: b\r\ntransfer-encoding: chunked\r\n\r\n", Err(400), "RFC 9110, 6.5.1: framing"),
        ("0\r\nHOST: b\r\n\r\n", Err(400), "RFC 9110, 6.5.1: routing"),
        ("0\r\nHosts: b\r\n\r\n", Ok(Some(15)), "another name"),
        ("0\r\nTransfer-Encoding-Or-So: b\r\n\r\n", Ok(Some(33)), "a longer name"),
    ];
    for (bytes, expected, reason) in table {
        assert_eq!(read(bytes.as_bytes(), &Limits::default()), *expected, "{bytes:?}: {reason}");
    }
}

#[test]
fn limits() {
    let limits = Limits { body: 10, head: 20, chunk_extensions: 20, ..Limits::default() };
    // (bytes, consumed bytes or status, reason)
    let table: &[(&str, Found, &str)] = &[
        ("a\r\n0123456789\r\n0\r\n\r\n", Ok(Some(20)), "ten bytes"),
        ("b\r\n", Err(413), "eleven, known from the size"),
        ("5\r\nhello\r\n6\r\n", Err(413), "eleven in two chunks"),
        ("0;45678901234567890\r\n\r\n", Ok(Some(23)), "an extension of eighteen"),
        ("0;4567890123456789012\r\n", Ok(None), "an extension of twenty"),
        ("0;45678901234567890123", Err(413), "an extension of twenty-one"),
        ("1;234567890\r\nx\r\n1;234567890\r\nx\r\n0\r\n\r\n", Ok(Some(37)), "two of ten"),
        ("1;234567890\r\nx\r\n1;2345678901\r\n", Err(413), "they count together"),
        ("0;2345678901\r\nX: 456789012\r\n\r\n", Ok(Some(30)), "trailers are counted apart"),
        ("0;a=\"                    \"", Err(413), "a string of twenty-two"),
        ("0;                      ", Err(413), "white space of twenty-two"),
        ("0\r\nX: 4567890123456789012", Err(431), "a trailer of twenty-two"),
        ("0\r\nX45678901234567890123", Err(431), "a trailer's name of twenty-one"),
    ];
    for (bytes, expected, reason) in table {
        assert_eq!(read(bytes.as_bytes(), &limits), *expected, "{bytes:?}: {reason}");
    }
    assert!(BodyParser::new(Body::Length(10), &limits).is_ok());
    let reject = BodyParser::new(Body::Length(11), &limits).unwrap_err();
    assert_eq!(reject.status.code(), 413, "RFC 9110, 15.5.14: immediately");
}

/// Some old servers fill the line of a size with spaces.
#[test]
fn padded_sizes() {
    let read = |bytes: &str| {
        let parser = BodyParser::new(Body::Chunked, &Limits::default()).unwrap();
        let (mut parser, mut content) = (parser.padded(), Vec::new());
        let consumed = parser.copy(bytes.as_bytes(), &mut content).map_err(|e| e.status.code())?;
        Ok((parser.is_done().then_some(consumed), content))
    };
    for body in ["5  \r\nhello\r\n0 \r\n\r\n", "5\t;a \r\nhello\r\n0;b=c  \r\n\r\n"] {
        assert_eq!(read(body), Ok((Some(body.len()), b"hello".to_vec())), "{body:?}");
    }
    for body in [" 5\r\nhello\r\n", "5 5\r\n", "5 \rhello"] {
        assert_eq!(read(body), Err(400), "{body:?}");
    }
}

#[test]
fn known_lengths() {
    let limits = Limits { body: u64::MAX, ..Limits::default() };
    let mut none = BodyParser::new(Body::None, &limits).unwrap();
    assert!(none.is_done());
    assert_eq!(none.feed(b"GET"), Ok(0));
    let mut five = BodyParser::new(Body::Length(5), &limits).unwrap();
    assert_eq!(five.feed(b""), Ok(0));
    assert_eq!(five.feed(b"1234"), Ok(4));
    assert!(!five.is_done());
    assert_eq!(five.feed(b"5GET"), Ok(1));
    assert!(five.is_done());
    assert_eq!(five.feed(b"GET"), Ok(0));
    let mut huge = BodyParser::new(Body::Length(u64::MAX), &limits).unwrap();
    assert_eq!(huge.feed(b"some"), Ok(4));
}
