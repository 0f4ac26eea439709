//! Range requests (RFC 9110, 14).

use crate::bytes::{elements, saturating_number};
use crate::etag::Tag;
use crate::{Method, Request, Validators, parse_date};

/// Which part of a representation to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ranged {
    /// All of it, with 200.
    Full,
    /// The bytes from `start` up to but not including `end`, with 206; never empty.
    Partial {
        /// The first byte.
        start: u64,
        /// One past the last byte; at most the representation's length.
        end: u64,
    },
    /// Nothing, with 416.
    Unsatisfiable,
}

/// Decides which part of a representation of `length` bytes a request is to get.
///
/// Only GET has ranges (14.2), only one range is served, and whatever else is asked for (many ranges,
/// another unit, bad syntax) gets the whole, as a server may always do. A range goes unheeded too if
/// `If-Range` names anything but this state of the representation: an identical strong tag, or
/// exactly its date (13.1.5). To be called when [`evaluate`](crate::evaluate) said to proceed.
///
/// ```
/// use phalanx_http::{Limits, Parse, Ranged, Validators, parse, range};
///
/// let bytes = b"GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=-100\r\n\r\n";
/// let Ok(Parse::Complete(request, _)) = parse(bytes, &Limits::default()) else { panic!() };
/// let validators = Validators { etag: "\"v1\"", modified: 0 };
/// let last = range::resolve(&request, &validators, 2048);
/// assert_eq!(last, Ranged::Partial { start: 1948, end: 2048 });
/// ```
pub fn resolve(request: &Request<'_>, validators: &Validators<'_>, length: u64) -> Ranged {
    let Some(value) = request.range else { return Ranged::Full };
    if request.method != Method::Get || !is_current(request.if_range, validators) {
        return Ranged::Full;
    }
    single(value).map_or(Ranged::Full, |range| range.clamp(length))
}

/// Whether the range is meant for this state: there is no `If-Range`, or it holds.
fn is_current(if_range: Option<&[u8]>, validators: &Validators<'_>) -> bool {
    let Some(value) = if_range else { return true };
    match (Tag::whole(value), Tag::whole(validators.etag.as_bytes())) {
        (Some(asked), Some(own)) => asked.matches_strongly(own),
        (Some(_), None) => false,
        (None, _) => parse_date(value) == Some(validators.modified),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Range {
    From(u64),
    FromTo(u64, u64),
    Last(u64),
}

impl Range {
    fn clamp(self, length: u64) -> Ranged {
        let (start, end) = match self {
            Range::From(first) => (first, length),
            Range::FromTo(first, last) => (first, last.saturating_add(1).min(length)),
            Range::Last(0) => return Ranged::Unsatisfiable,
            // Satisfiable by definition (14.1.2), but no Content-Range could say so.
            Range::Last(_) if length == 0 => return Ranged::Full,
            Range::Last(count) => (length.saturating_sub(count), length),
        };
        if start < length { Ranged::Partial { start, end } } else { Ranged::Unsatisfiable }
    }
}

/// The only range of a valid specifier in bytes.
fn single(value: &[u8]) -> Option<Range> {
    let (unit, set) = value.split_at_checked(5)?;
    let set = set.strip_prefix(b"=").filter(|_| unit.eq_ignore_ascii_case(b"bytes"))?;
    let mut ranges = elements(set);
    let (range, None) = (ranges.next()?, ranges.next()) else { return None };
    let dash = range.iter().position(|&byte| byte == b'-')?;
    let (first, last) = (&range[..dash], &range[dash + 1..]);
    match (first, last) {
        (b"", last) => saturating_number(last).map(Range::Last),
        (first, b"") => saturating_number(first).map(Range::From),
        (first, last) => {
            let (first, last) = (saturating_number(first)?, saturating_number(last)?);
            (first <= last).then_some(Range::FromTo(first, last))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn specifiers() {
        use Ranged::{Full, Partial, Unsatisfiable};
        let part = |start, end| Partial { start, end };
        // (value, length, answer, why), RFC 9110
        let table: &[(&str, u64, Ranged, &str)] = &[
            ("bytes=0-99", 2048, part(0, 100), "14.1.2: the last position is included"),
            ("bytes=0-0", 2048, part(0, 1), "14.1.2"),
            ("bytes=2047-", 2048, part(2047, 2048), "14.1.2"),
            ("bytes=0-", 2048, part(0, 2048), "14.1.2: the whole is a part too"),
            ("bytes=100-9999", 2048, part(100, 2048), "14.1.2: clamped"),
            ("bytes=-100", 2048, part(1948, 2048), "14.1.2: the last 100"),
            ("bytes=-9999", 2048, part(0, 2048), "14.1.2: suffix longer than all"),
            ("BYTES=0-1", 2048, part(0, 2), "14.1: units have no case"),
            ("bytes=0-1,", 2048, part(0, 2), "5.6.1.2: empty elements do not count"),
            ("bytes= 0-1 ", 2048, part(0, 2), "5.6.1: white space around elements"),
            ("bytes=2048-", 2048, Unsatisfiable, "14.1.2"),
            ("bytes=5000-6000", 2048, Unsatisfiable, "14.1.2"),
            ("bytes=-0", 2048, Unsatisfiable, "14.1.2: a suffix of nothing"),
            ("bytes=0-", 0, Unsatisfiable, "14.1.2: no first byte"),
            ("bytes=-5", 0, Full, "14.1.2: satisfiable, and empty"),
            ("bytes=99999999999999999999-", 9, Unsatisfiable, "17.14: numbers that overflow"),
            ("bytes=0-99999999999999999999", 9, part(0, 9), "17.14: numbers that overflow"),
            ("bytes=18446744073709551615-", u64::MAX, Unsatisfiable, "the edge"),
            ("bytes=0-18446744073709551615", u64::MAX, part(0, u64::MAX), "the edge"),
            ("bytes=5-1", 2048, Full, "14.1.1: last before first is invalid"),
            ("bytes=0-1,5-6", 2048, Full, "14.2: many ranges may be ignored"),
            ("bytes=0-0,0-0,0-0", 2048, Full, "14.2: many ranges may be ignored"),
            ("bytes=", 2048, Full, "14.1.1: at least one"),
            ("bytes=-", 2048, Full, "14.1.2"),
            ("bytes=--1", 2048, Full, "14.1.2"),
            ("bytes=+0-1", 2048, Full, "14.1.2: digits only"),
            ("bytes=0x0-1", 2048, Full, "14.1.2: digits only"),
            ("bytes=0 - 1", 2048, Full, "14.1.2: no space within"),
            ("bytes=a-b", 2048, Full, "14.1.2"),
            ("bytes 0-1", 2048, Full, "14.1.1: an equals sign"),
            ("bytes =0-1", 2048, Full, "14.1.1: no space before it"),
            ("lines=0-1", 2048, Full, "14.2: an unknown unit is ignored"),
            ("", 2048, Full, "14.1.1"),
        ];
        for (value, length, wanted, why) in table {
            let found = single(value.as_bytes()).map_or(Full, |range| range.clamp(*length));
            assert_eq!(found, *wanted, "{value:?} of {length}: {why}");
        }
    }

    proptest! {
        #[test]
        fn parts_lie_within(first: u64, last: u64, length: u64, kind in 0..3) {
            let range = match kind {
                0 => Range::From(first),
                1 => Range::FromTo(first.min(last), first.max(last)),
                _ => Range::Last(first),
            };
            if let Ranged::Partial { start, end } = range.clamp(length) {
                prop_assert!(start < end && end <= length);
            }
        }
    }
}
