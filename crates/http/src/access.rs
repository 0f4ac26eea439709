//! Formatting of access log lines.
//!
//! The text formats are those that all log tools support: Common (NCSA) and Combined, which adds the referer and the
//! user agent. Data from clients is escaped, so that it can end neither its field nor its line.

mod template;

use std::io::Write as _;
use std::net::IpAddr;
use std::time::Duration;

pub use template::LogTemplate;

use crate::syntax::date::format_date;

/// Line format.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// `address - user [time] "request line" status bytes`.
    #[default]
    Common,
    /// Common, followed by `"referer" "agent"`.
    Combined,
    /// One JSON object per line, with all fields.
    Json,
    /// Text with named fields.
    Template(LogTemplate),
}

/// An answered request. Unknown values are empty, and written as `-`, or `null` in JSON.
///
/// ```
/// use std::time::Duration;
/// use phalanx_http::{Access, LogFormat, LogTime};
///
/// let access = Access {
///     address: [192, 0, 2, 7].into(),
///     user: b"",
///     host: b"example.org",
///     line: b"GET /\"x HTTP/1.1",
///     status: 200,
///     bytes: 2326,
///     referer: b"",
///     agent: b"curl/8",
///     start: Duration::from_millis(784_111_777_250),
///     duration: Duration::from_micros(1500),
/// };
/// let (mut out, mut time) = (Vec::new(), LogTime::default());
/// access.write(&LogFormat::Combined, &mut time, &mut out);
/// let line = r#"192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] "GET /\"x HTTP/1.1" 200 2326 "-" "curl/8""#;
/// assert_eq!(out, format!("{line}\n").as_bytes());
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Access<'a> {
    /// Address of the client.
    pub address: IpAddr,
    /// Authenticated user.
    pub user: &'a [u8],
    /// Requested host (JSON and templates).
    pub host: &'a [u8],
    /// The request line.
    pub line: &'a [u8],
    /// Status code of the response.
    pub status: u16,
    /// Bytes of content sent.
    pub bytes: u64,
    /// `Referer`.
    pub referer: &'a [u8],
    /// `User-Agent`.
    pub agent: &'a [u8],
    /// Time of arrival since 1970. Written in UTC.
    pub start: Duration,
    /// Time until the response was sent (JSON and templates, in microseconds).
    pub duration: Duration,
}

/// Cached text of the latest second, which most lines share.
#[derive(Debug, Clone, Default)]
pub struct LogTime {
    second: Option<u64>,
    common: Vec<u8>,
    iso: Vec<u8>,
}

impl LogTime {
    fn set(&mut self, second: u64) {
        if self.second == Some(second) {
            return;
        }
        self.second = Some(second);
        // `Sun, 06 Nov 1994 08:49:37 GMT`
        let date = format_date(second);
        let (day, month, year, time) = (&date[5..7], &date[8..11], &date[12..16], &date[17..25]);
        self.common.clear();
        for part in [day, b"/", month, b"/", year, b":", time, b" +0000"] {
            self.common.extend_from_slice(part);
        }
        let number = MONTHS.iter().position(|name| *name == month).map_or(0, |n| n as u8 + 1);
        let number = [b'0' + number / 10, b'0' + number % 10];
        self.iso.clear();
        for part in [year, b"-", &number, b"-", day, b"T", time] {
            self.iso.extend_from_slice(part);
        }
    }
}

const MONTHS: [&[u8]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

impl Access<'_> {
    /// Appends the line, including its line feed.
    pub fn write(&self, format: &LogFormat, time: &mut LogTime, out: &mut Vec<u8>) {
        time.set(self.start.as_secs());
        match format {
            LogFormat::Common => self.common(time, out),
            LogFormat::Combined => {
                self.common(time, out);
                out.extend_from_slice(b" \"");
                text(out, self.referer);
                out.extend_from_slice(b"\" \"");
                text(out, self.agent);
                out.push(b'"');
            }
            LogFormat::Json => self.json(time, out),
            LogFormat::Template(template) => template.write(self, time, out),
        }
        out.push(b'\n');
    }

    fn common(&self, time: &LogTime, out: &mut Vec<u8>) {
        address(out, self.address);
        out.extend_from_slice(b" - ");
        name(out, self.user);
        out.extend_from_slice(b" [");
        out.extend_from_slice(&time.common);
        out.extend_from_slice(b"] \"");
        text(out, self.line);
        out.extend_from_slice(b"\" ");
        number(out, self.status.into());
        out.push(b' ');
        number(out, self.bytes);
    }

    /// Appends the time of arrival as in ISO 8601, with milliseconds.
    fn iso(&self, time: &LogTime, out: &mut Vec<u8>) {
        out.extend_from_slice(&time.iso);
        let thousandths = self.start.subsec_millis();
        let digit = |n: u32| b'0' + (n % 10) as u8;
        out.extend_from_slice(&[
            b'.',
            digit(thousandths / 100),
            digit(thousandths / 10),
            digit(thousandths),
            b'Z',
        ]);
    }

    fn json(&self, time: &LogTime, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"time\":\"");
        self.iso(time, out);
        out.extend_from_slice(b"\",\"address\":\"");
        address(out, self.address);
        out.push(b'"');
        for (key, value) in [
            (&b",\"user\":"[..], self.user),
            (b",\"host\":", self.host),
            (b",\"request\":", self.line),
        ] {
            out.extend_from_slice(key);
            json(out, value);
        }
        out.extend_from_slice(b",\"status\":");
        number(out, self.status.into());
        out.extend_from_slice(b",\"bytes\":");
        number(out, self.bytes);
        out.extend_from_slice(b",\"referer\":");
        json(out, self.referer);
        out.extend_from_slice(b",\"agent\":");
        json(out, self.agent);
        out.extend_from_slice(b",\"duration_us\":");
        number(out, self.duration.as_micros() as u64);
        out.push(b'}');
    }
}

fn number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends an address; an IPv4-mapped IPv6 address is written as IPv4.
fn address(out: &mut Vec<u8>, address: IpAddr) {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            for (n, part) in address.octets().into_iter().enumerate() {
                if n > 0 {
                    out.push(b'.');
                }
                number(out, part.into());
            }
        }
        // Writing to memory does not fail.
        IpAddr::V6(address) => drop(write!(out, "{address}")),
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Appends `bytes`, escaping those for which `is_plain` is false.
fn push_escaped(
    out: &mut Vec<u8>,
    bytes: &[u8],
    is_plain: impl Fn(u8) -> bool,
    escape: impl Fn(&mut Vec<u8>, u8),
) {
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| !is_plain(*byte)) {
        out.extend_from_slice(&rest[..at]);
        escape(out, rest[at]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

/// Appends text within quotes.
fn text(out: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.is_empty() {
        return out.push(b'-');
    }
    push_escaped(
        out,
        bytes,
        |byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\',
        hex,
    );
}

/// Appends text without quotes, and therefore without spaces.
fn name(out: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.is_empty() {
        return out.push(b'-');
    }
    push_escaped(
        out,
        bytes,
        |byte| matches!(byte, b'!'..=b'~') && byte != b'"' && byte != b'\\',
        hex,
    );
}

fn hex(out: &mut Vec<u8>, byte: u8) {
    match byte {
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
        byte => {
            out.extend_from_slice(b"\\x");
            out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
}

/// Appends a JSON string without control characters. This includes the C1 controls of Unicode, which JSON allows
/// unescaped but terminals may interpret. Invalid UTF-8 is interpreted as Latin-1.
fn json(out: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.is_empty() {
        return out.extend_from_slice(b"null");
    }
    let unicode = |out: &mut Vec<u8>, byte: u8| match byte {
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
        byte => {
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    };
    let is_plain = |byte| !matches!(byte, 0..b' ' | b'"' | b'\\' | 0x7f);
    out.push(b'"');
    for chunk in bytes.utf8_chunks() {
        let mut rest = chunk.valid().as_bytes();
        // U+0080 to U+009F are encoded as the byte 0xc2 and the byte of their number.
        while let Some(at) = rest.windows(2).position(|pair| pair[0] == 0xc2 && pair[1] < 0xa0) {
            push_escaped(out, &rest[..at], is_plain, unicode);
            unicode(out, rest[at + 1]);
            rest = &rest[at + 2..];
        }
        push_escaped(out, rest, is_plain, unicode);
        push_escaped(out, chunk.invalid(), |_| false, unicode);
    }
    out.push(b'"');
}
