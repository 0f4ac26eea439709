//! Range requests (RFC 9110, 14).

use crate::negotiate::conditional::Validators;
use crate::request::head::Request;
use crate::request::line::Method;
use crate::syntax::bytes::{elements, saturating_number};
use crate::syntax::date::parse_date;
use crate::syntax::etag::Tag;

/// Maximum number of ranges in a request. A request with more gets the whole file: clients do not need them,
/// and they have been used for attacks (RFC 9110, 17.15).
pub const MAX_RANGES: usize = 16;

/// The part of a representation to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ranged {
    /// All of it, with 200.
    Full,
    /// The bytes from `start` up to but not including `end`, with 206; never empty.
    Partial {
        /// Offset of the first byte.
        start: u64,
        /// Offset one past the last byte; at most the representation's length.
        end: u64,
    },
    /// Two or more ranges, with 206 and a [`Multipart`](crate::Multipart).
    Parts(Parts),
    /// None, with 416.
    Unsatisfiable,
}

/// Ranges of one representation in the requested order: at least two, at most [`MAX_RANGES`], none of them
/// empty, overlapping or adjacent. Together they are never larger than the representation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts(Box<[(u64, u64)]>);

impl Parts {
    /// Start and end offset of each range.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u64, u64)> + '_ {
        self.0.iter().copied()
    }
}

/// Determines the part of a representation of `length` bytes to send.
///
/// Only GET supports ranges (14.2). A request with another unit, invalid syntax or more than [`MAX_RANGES`]
/// gets the whole, which is always allowed. Overlapping and adjacent ranges are merged (15.3.7.2), ranges
/// without a byte are dropped, and a single remaining range is sent as such. Ranges are also ignored if
/// `If-Range` does not match the representation: by an identical strong tag, or by its exact date unless the
/// representation's own tag is weak (13.1.5).
/// Call it after [`evaluate`](crate::evaluate) returned `Proceed`.
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
    let Some(set) = set(value) else { return Ranged::Full };
    let mut ranges = elements(set);
    match (ranges.next(), ranges.next()) {
        (Some(range), None) => {
            Range::parse(range).map_or(Ranged::Full, |range| range.clamp(length))
        }
        (Some(_), Some(_)) => resolve_several(set, length),
        (None, _) => Ranged::Full,
    }
}

/// The list of a byte range specifier.
fn set(value: &[u8]) -> Option<&[u8]> {
    let (unit, set) = value.split_at_checked(5)?;
    set.strip_prefix(b"=").filter(|_| unit.eq_ignore_ascii_case(b"bytes"))
}

/// Resolves several ranges. Allocates, because browsers do not request them with each page.
#[cold]
fn resolve_several(set: &[u8], length: u64) -> Ranged {
    let mut parts: Vec<(u64, u64)> = Vec::new();
    for (n, range) in elements(set).enumerate() {
        let Some(range) = Range::parse(range).filter(|_| n < MAX_RANGES) else {
            return Ranged::Full;
        };
        match range.clamp(length) {
            Ranged::Partial { start, end } => merge(&mut parts, (start, end)),
            Ranged::Unsatisfiable => (),
            _ => return Ranged::Full,
        }
    }
    match *parts {
        [] => Ranged::Unsatisfiable,
        [(start, end)] => Ranged::Partial { start, end },
        _ => Ranged::Parts(Parts(parts.into())),
    }
}

/// Adds a range. Ranges that overlap or touch it are merged with it, at the position of the first.
fn merge(parts: &mut Vec<(u64, u64)>, mut part: (u64, u64)) {
    let mut position = None;
    let mut at = 0;
    while at < parts.len() {
        let other = parts[at];
        if other.0 <= part.1 && part.0 <= other.1 {
            part = (part.0.min(other.0), part.1.max(other.1));
            position = position.or(Some(at));
            parts.remove(at);
            // The merged range may touch further ranges.
            at = 0;
        } else {
            at += 1;
        }
    }
    parts.insert(position.unwrap_or(parts.len()).min(parts.len()), part);
}

/// Whether the range applies to this version: there is no `If-Range`, or it matches.
fn is_current(if_range: Option<&[u8]>, validators: &Validators<'_>) -> bool {
    let Some(value) = if_range else { return true };
    match (Tag::whole(value), Tag::whole(validators.etag.as_bytes())) {
        (Some(requested), Some(current)) => requested.matches_strongly(current),
        (Some(_), None) => false,
        // A weak tag means that the content may change again within the second of its date, so the date is weak, too
        // (8.8.2.2).
        (None, current) => {
            !current.is_some_and(|current| current.weak)
                && parse_date(value) == Some(validators.modified)
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Range {
    From(u64),
    FromTo(u64, u64),
    Last(u64),
}

impl Range {
    fn parse(range: &[u8]) -> Option<Range> {
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

    fn clamp(self, length: u64) -> Ranged {
        let (start, end) = match self {
            Range::From(first) => (first, length),
            Range::FromTo(first, last) => (first, last.saturating_add(1).min(length)),
            Range::Last(0) => return Ranged::Unsatisfiable,
            // Satisfiable by definition (14.1.2), but it has no `Content-Range`.
            Range::Last(_) if length == 0 => return Ranged::Full,
            Range::Last(count) => (length.saturating_sub(count), length),
        };
        if start < length { Ranged::Partial { start, end } } else { Ranged::Unsatisfiable }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::request::scan::{Parse, parse};
    use proptest::prelude::*;

    fn resolve_header(range: &str, length: u64) -> Ranged {
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\nRange: {range}\r\n\r\n");
        let Ok(Parse::Complete(request, _)) = parse(head.as_bytes(), &Limits::default()) else {
            panic!("{head:?}")
        };
        resolve(&request, &Validators { etag: "\"a\"", modified: 0 }, length)
    }

    #[test]
    fn specifiers() {
        use Ranged::{Full, Partial, Unsatisfiable};
        let part = |start, end| Partial { start, end };
        let parts = |parts: &[(u64, u64)]| Ranged::Parts(Parts(parts.into()));
        // (value, length, result, reason), RFC 9110
        let table: &[(&str, u64, Ranged, &str)] = &[
            ("bytes=0-99", 2048, part(0, 100), "14.1.2: the last position is included"),
            ("bytes=0-0", 2048, part(0, 1), "14.1.2"),
            ("bytes=2047-", 2048, part(2047, 2048), "14.1.2"),
            ("bytes=0-", 2048, part(0, 2048), "14.1.2: the whole is a part too"),
            ("bytes=100-9999", 2048, part(100, 2048), "14.1.2: clamped"),
            ("bytes=-100", 2048, part(1948, 2048), "14.1.2: the last 100"),
            ("bytes=-9999", 2048, part(0, 2048), "14.1.2: suffix longer than all"),
            ("BYTES=0-1", 2048, part(0, 2), "14.1: units are case-insensitive"),
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
            ("bytes=0-0,0-0,0-0", 2048, part(0, 1), "15.3.7.2: overlapping ones become one"),
            ("bytes=0-9,10-19", 2048, part(0, 20), "15.3.7.2: touching ones too"),
            ("bytes=0-9,9999-", 2048, part(0, 10), "15.3.7: the satisfiable ones"),
            ("bytes=9999-,-0", 2048, Unsatisfiable, "15.5.17: none is satisfiable"),
            ("bytes=0-9,x", 2048, Full, "14.2: one that is invalid makes all so"),
            ("bytes=0-9,5-1", 2048, Full, "14.1.1"),
            ("bytes=0-0,-5", 0, Full, "14.1.2: satisfiable, and empty"),
            ("bytes=5-6,0-1", 2048, parts(&[(5, 7), (0, 2)]), "15.3.7.2: in the order asked for"),
            ("bytes=0-1,-2", 2048, parts(&[(0, 2), (2046, 2048)]), "14.1.2"),
            ("bytes=0-9,90-99,5-94", 2048, part(0, 100), "what bridges a gap joins both"),
            ("bytes=50-59,0-1,55-69", 99, parts(&[(50, 70), (0, 2)]), "where the first stood"),
            ("bytes=0-1, ,4-5,,", 2048, parts(&[(0, 2), (4, 6)]), "5.6.1.2: empty elements"),
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
        for (value, length, expected, reason) in table {
            assert_eq!(
                resolve_header(value, *length),
                *expected,
                "{value:?} of {length}: {reason}"
            );
        }
        let ranges_header = |count: u64| {
            let ranges: Vec<_> = (0..count).map(|n| format!("{}-{}", 9 * n, 9 * n)).collect();
            format!("bytes={}", ranges.join(","))
        };
        let Ranged::Parts(found) = resolve_header(&ranges_header(16), 2048) else {
            panic!("16 are served")
        };
        assert_eq!(found.iter().len(), MAX_RANGES);
        assert_eq!(resolve_header(&ranges_header(17), 2048), Full, "17.15: too many");
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

        /// Every requested byte is in exactly one part, and no other byte is.
        #[test]
        fn parts_contain_the_requested_bytes(
            ranges in prop::collection::vec((0..60u64, 0..20u64), 2..MAX_RANGES),
        ) {
            let list: Vec<_> =
                ranges.iter().map(|(first, length)| format!("{first}-{}", first + length)).collect();
            let found = match resolve_header(&format!("bytes={}", list.join(",")), 50) {
                Ranged::Partial { start, end } => vec![(start, end)],
                Ranged::Parts(parts) => parts.iter().collect(),
                Ranged::Unsatisfiable => vec![],
                Ranged::Full => return Err(TestCaseError::fail("nothing is wrong with it")),
            };
            for byte in 0..50 {
                let expected = ranges.iter().any(|(first, length)| (*first..=first + length).contains(&byte));
                let times = found.iter().filter(|part| (part.0..part.1).contains(&byte)).count();
                prop_assert_eq!(times, usize::from(expected), "{}", byte);
            }
            for (n, part) in found.iter().enumerate() {
                prop_assert!(part.0 < part.1);
                prop_assert!(found.iter().skip(n + 1).all(|o| o.0 > part.1 || part.0 > o.1), "apart");
            }
        }
    }
}
