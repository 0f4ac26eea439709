//! Media type negotiation for a file server (RFC 9110, 12.5.1).

use crate::negotiate::encoding::weight;
use crate::request::head::Request;
use crate::syntax::bytes::{elements, trim};

/// The weight of a media type in a request: that of the most specific matching range in the `Accept` field
/// (12.5.1), from 0 (not acceptable) to 1000. Without the field it is 1000.
///
/// ```
/// use phalanx_http::{Limits, Parse, accepts, parse};
///
/// let bytes = b"GET / HTTP/1.1\r\nHost: a\r\nAccept: text/html, */*;q=0.8\r\n\r\n";
/// let Ok(Parse::Complete(request, _)) = parse(bytes, &Limits::default()) else { panic!() };
/// assert_eq!(accepts(&request, "text/html"), 1000);
/// assert_eq!(accepts(&request, "application/json"), 800);
/// ```
pub fn accepts(request: &Request<'_>, essence: &str) -> u16 {
    weigh(request.values("accept"), essence).map_or(1000, |(weight, _)| weight)
}

/// Whether a request names a media type exactly or by its kind (`text/*`), and not only by `*/*`. Browsers do so for
/// pages, but not for the resources of a page.
pub fn names(request: &Request<'_>, essence: &str) -> bool {
    weigh(request.values("accept"), essence).is_some_and(|(weight, named)| weight > 0 && named > 0)
}

/// The weight, and the specificity of the range that determines it: 2 for the type itself, 1 for its kind, 0
/// for any. `None` without any range.
fn weigh<'a>(lines: impl Iterator<Item = &'a [u8]>, essence: &str) -> Option<(u16, u8)> {
    let kind = essence.split('/').next().unwrap_or(essence).as_bytes();
    let mut best: Option<(u8, u16)> = None;
    let mut any = false;
    for element in lines.flat_map(elements) {
        let mut parts = element.split(|&byte| byte == b';').map(trim);
        let Some(range) = parts.next() else { continue };
        // Ranges with parameters match only types with parameters, which this server does not have. Only the weight is
        // accepted.
        let parts: Vec<_> = parts.collect();
        let is_weight = |part: &&[u8]| matches!(part, [b'q' | b'Q', b'=', ..]);
        let specific = match range {
            b"*/*" => 0,
            [range_kind @ .., b'/', b'*'] if range_kind.eq_ignore_ascii_case(kind) => 1,
            _ if range.eq_ignore_ascii_case(essence.as_bytes()) => 2,
            _ => {
                any = true;
                continue;
            }
        };
        let Some(weight) = weight(parts.into_iter().filter(is_weight)) else { continue };
        let found = (specific, weight / 2);
        best = Some(best.map_or(found, |before| before.max(found)));
        any = true;
    }
    match best {
        Some((specific, weight)) => Some((weight, specific)),
        None => any.then_some((0, 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        // (field, type, weight, named), RFC 9110 12.5.1
        let table = [
            ("text/html", "text/html", 1000, true),
            ("text/html", "application/json", 0, false),
            ("*/*", "application/json", 1000, false),
            ("text/*;q=0.3, text/html;q=0.7", "text/html", 700, true),
            ("text/*;q=0.3, text/html;q=0.7", "text/plain", 300, true),
            ("text/html;q=0, */*", "text/html", 0, false),
            ("TEXT/HTML", "text/html", 1000, true),
            ("image/avif,image/webp,*/*;q=0.8", "text/html", 800, false),
            ("application/json, text/plain, */*", "application/json", 1000, true),
            ("application/json;charset=utf-8;q=0.4", "application/json", 400, true),
            ("", "text/html", 1000, false),
        ];
        for (line, essence, expected, named) in table {
            let found = weigh([line.as_bytes()].into_iter(), essence);
            assert_eq!(found.map_or(1000, |(weight, _)| weight), expected, "{line:?} {essence}");
            assert_eq!(found.is_some_and(|(w, n)| w > 0 && n > 0), named, "{line:?} {essence}");
        }
    }
}
