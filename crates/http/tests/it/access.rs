//! Access log lines: their formats, and that clients cannot forge lines.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use phalanx_http::{Access, LogFormat, LogTemplate, LogTime};
use proptest::prelude::*;

fn access<'a>(line: &'a [u8], agent: &'a [u8]) -> Access<'a> {
    Access {
        address: [127, 0, 0, 1].into(),
        user: b"",
        host: b"h",
        line,
        status: 404,
        bytes: 9,
        referer: b"",
        agent,
        start: Duration::from_millis(784_111_777_045),
        duration: Duration::from_micros(12),
    }
}

fn written(access: Access<'_>, format: LogFormat) -> String {
    let mut out = Vec::new();
    access.write(&format, &mut LogTime::default(), &mut out);
    String::from_utf8(out).expect("a line is UTF-8")
}

#[test]
fn the_three_forms() {
    let request = access(b"GET / HTTP/1.1", b"a \"b\"");
    let common = r#"127.0.0.1 - - [06/Nov/1994:08:49:37 +0000] "GET / HTTP/1.1" 404 9"#;
    assert_eq!(written(request, LogFormat::Common), format!("{common}\n"));
    assert_eq!(written(request, LogFormat::Combined), format!("{common} \"-\" \"a \\\"b\\\"\"\n"));
    let json = r#"{"time":"1994-11-06T08:49:37.045Z","address":"127.0.0.1","user":null,"host":"h","request":"GET / HTTP/1.1","status":404,"bytes":9,"referer":null,"agent":"a \"b\"","duration_us":12}"#;
    assert_eq!(written(request, LogFormat::Json), format!("{json}\n"));
}

#[test]
fn a_template() {
    let template = |text: &str| LogFormat::Template(text.parse::<LogTemplate>().unwrap());
    let all = "$address $user $host $request \"$request\" $status $bytes $referer $agent $time [$date] $duration_us $$";
    let expected = "127.0.0.1 - h GET\\x20/ \"GET /\" 404 9 - \\\"x\\\"\\x0a 1994-11-06T08:49:37.045Z \
                  [06/Nov/1994:08:49:37 +0000] 12 $\n";
    assert_eq!(written(access(b"GET /", b"\"x\"\n"), template(all)), expected);
    assert_eq!(written(access(b"", b""), template("$request,$user.")), "-,-.\n");
    // A closing quotation mark is no opening one.
    let line = written(access(b"", b"a b"), template("\"$status\"$agent \"x $agent\""));
    assert_eq!(line, "\"404\"a\\x20b \"x a b\"\n");
}

#[test]
fn special_characters_are_escaped() {
    let table: &[(&[u8], &str, &str)] = &[
        (b"", "-", "null"),
        (b"-", "-", "\"-\""),
        (b"a\\x", "a\\\\x", "\"a\\\\x\""),
        (b"\r\n1.2.3.4", "\\x0d\\x0a1.2.3.4", "\"\\u000d\\u000a1.2.3.4\""),
        (b"\x1b[2J\x7f", "\\x1b[2J\\x7f", "\"\\u001b[2J\\u007f\""),
        ("ä".as_bytes(), "\\xc3\\xa4", "\"ä\""),
        (b"x\xffy", "x\\xffy", "\"x\\u00ffy\""),
        (b"\xc3", "\\xc3", "\"\\u00c3\""),
        // CSI and OSC of terminals, and the characters around C1.
        ("\u{9b}31m\u{9d}".as_bytes(), "\\xc2\\x9b31m\\xc2\\x9d", "\"\\u009b31m\\u009d\""),
        ("a\u{80}\u{9f}".as_bytes(), "a\\xc2\\x80\\xc2\\x9f", "\"a\\u0080\\u009f\""),
        ("\u{a0}\u{c2}".as_bytes(), "\\xc2\\xa0\\xc3\\x82", "\"\u{a0}\u{c2}\""),
    ];
    for (bytes, text, json) in table {
        let line = written(access(b"x", bytes), LogFormat::Combined);
        assert!(line.ends_with(&format!("\"-\" \"{text}\"\n")), "{bytes:?}: {line}");
        let line = written(access(b"x", bytes), LogFormat::Json);
        assert!(line.contains(&format!("\"agent\":{json},")), "{bytes:?}: {line}");
    }
    let line = written(Access { user: b"a b", ..access(b"x", b"") }, LogFormat::Common);
    assert!(line.starts_with("127.0.0.1 - a\\x20b ["), "a user has no space: {line}");
}

#[test]
fn addresses_and_times() {
    let from = |address: &str| {
        written(
            Access { address: address.parse().unwrap(), ..access(b"x", b"") },
            LogFormat::Common,
        )
    };
    assert!(from("255.0.10.1").starts_with("255.0.10.1 - "));
    assert!(from("2001:db8::1").starts_with("2001:db8::1 - "));
    assert!(from("::ffff:10.0.0.9").starts_with("10.0.0.9 - "), "as what it is");

    // A cached time is updated when the second changes, in either direction.
    let (mut time, mut out) = (LogTime::default(), Vec::new());
    for second in [951_782_399, 951_782_400, 951_782_400, 0, 1_709_164_800] {
        Access { start: Duration::from_secs(second), ..access(b"x", b"") }.write(
            &LogFormat::Json,
            &mut time,
            &mut out,
        );
    }
    let out = String::from_utf8(out).unwrap();
    let times: Vec<_> = out.lines().map(|line| &line[9..33]).collect();
    assert_eq!(
        times,
        [
            "2000-02-28T23:59:59.000Z",
            "2000-02-29T00:00:00.000Z",
            "2000-02-29T00:00:00.000Z",
            "1970-01-01T00:00:00.000Z",
            "2024-02-29T00:00:00.000Z",
        ]
    );
}

/// Reverses the escapes of a text format.
fn unescaped(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match (first, after) {
            (b'\\', [b'x', hex @ ..]) => {
                let digits = str::from_utf8(&hex[..2]).unwrap();
                bytes.push(u8::from_str_radix(digits, 16).unwrap());
                rest = &hex[2..];
            }
            (b'\\', [quoted, after @ ..]) => {
                bytes.push(*quoted);
                rest = after;
            }
            _ => bytes.push(*first),
        }
    }
    bytes
}

proptest! {
    #[test]
    fn client_data_stays_in_its_field(
        line in prop::collection::vec(any::<u8>(), 1..60),
        referer in prop::collection::vec(any::<u8>(), 1..40),
        agent in prop::collection::vec(any::<u8>(), 1..40),
        user in prop::collection::vec(any::<u8>(), 1..20),
        address in any::<u128>(),
    ) {
        let request = Access {
            user: &user,
            referer: &referer,
            address: IpAddr::V6(Ipv6Addr::from(address)),
            ..access(&line, &agent)
        };
        let combined = written(request, LogFormat::Combined);
        prop_assert!(combined.bytes().all(|byte| byte == b'\n' || matches!(byte, b' '..=b'~')));
        prop_assert_eq!(combined.matches('\n').count(), 1);
        // Split at unescaped quotes, as a reader would.
        let mut quotes = Vec::new();
        let mut bytes = combined.bytes().enumerate();
        while let Some((at, byte)) = bytes.next() {
            match byte {
                b'\\' => drop(bytes.next()),
                b'"' => quotes.push(at),
                _ => (),
            }
        }
        prop_assert_eq!(quotes.len(), 6);
        let field = |n: usize| unescaped(&combined[quotes[2 * n] + 1..quotes[2 * n + 1]]);
        prop_assert_eq!(field(0), &line[..]);
        prop_assert_eq!(field(1), &referer[..]);
        prop_assert_eq!(field(2), &agent[..]);
        prop_assert_eq!(unescaped(combined.split(' ').nth(2).unwrap()), &user[..]);

        let json = written(request, LogFormat::Json);
        prop_assert_eq!(json.matches('\n').count(), 1);
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        if let Ok(line) = str::from_utf8(&line) {
            prop_assert_eq!(value["request"].as_str(), Some(line));
        }
    }
}
