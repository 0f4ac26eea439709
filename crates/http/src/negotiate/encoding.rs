//! Negotiation of content codings (RFC 9110, 12.5.3).

use crate::request::head::Request;
use crate::syntax::bytes::{elements, trim};

/// A content coding supported by the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Coding {
    /// Brotli (RFC 7932).
    Brotli,
    /// Zstandard (RFC 8878).
    Zstd,
    /// Gzip (RFC 1952).
    Gzip,
    /// No coding.
    Identity,
}

impl Coding {
    /// Codings other than identity, in order of preference.
    pub const ENCODED: [Coding; 3] = [Coding::Brotli, Coding::Zstd, Coding::Gzip];
    /// All codings in order of preference, identity last.
    const ALL: [Coding; 4] = [Coding::Brotli, Coding::Zstd, Coding::Gzip, Coding::Identity];

    /// The name in `Content-Encoding`; `identity` is never sent in that field.
    pub const fn name(self) -> &'static str {
        match self {
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
            Coding::Gzip => "gzip",
            Coding::Identity => "identity",
        }
    }

    /// File extension of precompressed files, with its dot; empty for identity.
    pub const fn suffix(self) -> &'static str {
        match self {
            Coding::Brotli => ".br",
            Coding::Zstd => ".zst",
            Coding::Gzip => ".gz",
            Coding::Identity => "",
        }
    }

    fn from_name(name: &[u8]) -> Option<Coding> {
        // `x-gzip` is equivalent to `gzip` (RFC 9110, 8.4.1.3).
        let name = if name.eq_ignore_ascii_case(b"x-gzip") { b"gzip" } else { name };
        Coding::ALL.into_iter().find(|coding| name.eq_ignore_ascii_case(coding.name().as_bytes()))
    }
}

/// The codings that a client accepts, from `Accept-Encoding`.
///
/// ```
/// use phalanx_http::{Accepted, Coding, Limits, Parse, parse};
///
/// let bytes = b"GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip, br;q=0.9, zstd;q=0\r\n\r\n";
/// let Ok(Parse::Complete(request, _)) = parse(bytes, &Limits::default()) else { panic!() };
/// let accepted = Accepted::by(&request);
/// let order: Vec<Coding> = accepted.in_order().collect();
/// assert_eq!(order, [Coding::Gzip, Coding::Brotli, Coding::Identity]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// Weights in the order of [`Coding::ALL`], in units of 1/2000; zero means not acceptable.
    weights: [u16; 4],
}

/// Weight of identity if it is not mentioned: acceptable, but less preferred than any mentioned coding.
const IDENTITY_WEIGHT: u16 = 1;

impl Accepted {
    /// The codings that this request accepts.
    ///
    /// Without the field, only identity is accepted. Any coding would be allowed (12.5.3), but clients that support
    /// none also omit the field. If a coding occurs twice, the lower weight applies. An element with an invalid weight
    /// is ignored.
    pub fn by(request: &Request<'_>) -> Accepted {
        match request.accept_encoding {
            None => Accepted { weights: [0, 0, 0, IDENTITY_WEIGHT] },
            Some(_) if request.repeated => Accepted::from_lines(request.values("accept-encoding")),
            Some(line) => Accepted::from_lines([line]),
        }
    }

    /// Whether this request rejects identity: by `identity;q=0`, or by `*;q=0` without mentioning identity (12.5.3).
    /// Cheap if there are no weights, as in requests of browsers.
    pub fn refuses_identity(request: &Request<'_>) -> bool {
        let Some(line) = request.accept_encoding else { return false };
        let has_weight = request.repeated || memchr::memchr(b'=', line).is_some();
        has_weight && !Accepted::by(request).takes(Coding::Identity)
    }

    fn from_lines<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Accepted {
        let mut explicit: [Option<u16>; 4] = [None; 4];
        let mut wildcard_weight: Option<u16> = None;
        for element in lines.into_iter().flat_map(elements) {
            let mut parts = element.split(|&byte| byte == b';').map(trim);
            let Some(name) = parts.next() else { continue };
            let Some(weight) = weight(parts) else { continue };
            let slot = match Coding::from_name(name) {
                Some(coding) => &mut explicit[coding as usize],
                None if name == b"*" => &mut wildcard_weight,
                None => continue,
            };
            *slot = Some(slot.map_or(weight, |before| before.min(weight)));
        }
        let weights = Coding::ALL.map(|coding| {
            let default_weight = if coding == Coding::Identity { IDENTITY_WEIGHT } else { 0 };
            explicit[coding as usize].or(wildcard_weight).unwrap_or(default_weight)
        });
        Accepted { weights }
    }

    /// Whether the client accepts this coding.
    pub fn takes(&self, coding: Coding) -> bool {
        self.weights[coding as usize] > 0
    }

    /// The accepted codings in order of preference: by the client's weights, then by the server's order. If
    /// identity is not among them and no other is available, the response is 406 (12.5.3).
    pub fn in_order(&self) -> impl Iterator<Item = Coding> + use<> {
        let weights = self.weights;
        let mut order = Coding::ALL;
        // The sort is stable: equal weights keep the server's order.
        order.sort_by_key(|coding| std::cmp::Reverse(weights[*coding as usize]));
        order.into_iter().filter(move |coding| weights[*coding as usize] > 0)
    }
}

/// The weight of a list element (12.4.2) in units of 1/2000, from the parameters that follow its name; `None`
/// if invalid.
pub(crate) fn weight<'a>(mut parameters: impl Iterator<Item = &'a [u8]>) -> Option<u16> {
    let Some(parameter) = parameters.next() else { return Some(2000) };
    let ([b'q' | b'Q', b'=', digits @ ..], None) = (parameter, parameters.next()) else {
        return None;
    };
    let (whole, fraction) = match digits {
        [whole @ (b'0' | b'1')] => (*whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', fraction @ ..] if fraction.len() <= 3 => (*whole, fraction),
        _ => return None,
    };
    let mut thousandths = u16::from(whole - b'0') * 1000;
    for (digit, unit) in fraction.iter().zip([100, 10, 1]) {
        thousandths += u16::from(digit.is_ascii_digit().then(|| digit - b'0')?) * unit;
    }
    (thousandths <= 1000).then_some(thousandths * 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn order(line: &str) -> String {
        let accepted = Accepted::from_lines([line.as_bytes()]);
        accepted.in_order().map(Coding::name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn negotiation() {
        // (field, accepted codings in order, reason), RFC 9110
        let table = [
            (
                "gzip, deflate, br, zstd",
                "br zstd gzip identity",
                "as sent by browsers; our order decides",
            ),
            ("", "identity", "12.5.3: an empty field wants no coding"),
            ("gzip", "gzip identity", "12.5.3: identity is acceptable unless excluded"),
            ("gzip;q=0.5, br;q=1.0", "br gzip identity", "12.4.2: weights"),
            ("gzip;q=1, br;q=0.001", "gzip br identity", "12.4.2: three digits"),
            ("gzip;q=0", "identity", "12.4.2: 0 is not acceptable"),
            ("gzip;q=0.000, br", "br identity", "12.4.2"),
            ("*", "br zstd gzip identity", "12.5.3: any not listed"),
            ("*;q=0", "", "12.5.3: excludes identity too"),
            ("*;q=0, gzip", "gzip", "12.5.3"),
            ("*;q=0, identity", "identity", "12.5.3: more specific"),
            ("identity;q=0", "", "12.5.3: nothing is left: 406"),
            ("identity;q=0, br", "br", "12.5.3"),
            ("gzip;q=0.5, identity", "identity gzip", "12.5.3: identity preferred"),
            ("gzip;q=0.5, identity;q=0.5", "gzip identity", "equal: our order decides"),
            ("gzip;q=0.5, *;q=0.7", "br zstd identity gzip", "12.5.3"),
            ("X-GZIP", "gzip identity", "8.4.1.3, and codings have no case (8.4.1)"),
            ("GZip;Q=0.8", "gzip identity", "12.4.2: Q is case-insensitive"),
            (
                "gzip ; q=0.8 ,, br;q=0",
                "gzip identity",
                "5.6.6, 5.6.1.2: white space, empty elements",
            ),
            ("deflate, compress", "identity", "not made here"),
            ("gzip;q=2", "identity", "12.4.2: no weight; as if not there"),
            ("gzip;q=1.001", "identity", "12.4.2: at most 1"),
            ("gzip;q=0.1234", "identity", "12.4.2: at most three digits"),
            ("gzip;q=.5", "identity", "12.4.2: a digit before the dot"),
            ("gzip;q=0.x", "identity", "12.4.2: digits"),
            ("gzip;q = 1", "identity", "5.6.6: no space around the equals sign"),
            ("gzip;level=9", "identity", "12.5.3: codings have no parameters but the weight"),
            ("gzip;q=1;q=0", "identity", "12.4.2: one weight"),
            ("gzip;q=1., br", "br gzip identity", "12.4.2: a dot may end it"),
            ("br;q=1, br;q=0", "identity", "named twice: the lower counts"),
            ("brotli, gz", "identity", "12.5.3: whole names"),
        ];
        for (line, expected, reason) in table {
            assert_eq!(order(line), expected, "{line:?}: {reason}");
        }
    }

    #[test]
    fn identity_may_be_refused() {
        use crate::limits::Limits;
        use crate::request::scan::{Parse, parse};
        // (lines, whether identity is rejected)
        let table = [
            ("", false),
            ("Accept-Encoding: gzip, br\r\n", false),
            ("Accept-Encoding: identity;q=0\r\n", true),
            ("Accept-Encoding: identity;q=0.001\r\n", false),
            ("Accept-Encoding: gzip, *;q=0\r\n", true),
            ("Accept-Encoding: *;q=0, identity\r\n", false),
            ("Accept-Encoding: gzip\r\nAccept-Encoding: identity;q=0\r\n", true),
            ("Accept-Encoding: gzip;q=0\r\n", false),
        ];
        for (lines, expected) in table {
            let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
            let Ok(Parse::Complete(request, _)) = parse(head.as_bytes(), &Limits::default()) else {
                panic!("{head:?}")
            };
            assert_eq!(Accepted::refuses_identity(&request), expected, "{lines:?}");
        }
    }

    #[test]
    fn lines_make_one_list() {
        let lines: [&[u8]; 2] = [b"gzip;q=0.5", b"br;q=0.9"];
        let accepted = Accepted::from_lines(lines);
        assert_eq!(accepted.in_order().next(), Some(Coding::Brotli));
        assert!(accepted.takes(Coding::Gzip) && !accepted.takes(Coding::Zstd));
    }

    proptest! {
        /// A coding that is explicitly rejected is never accepted.
        #[test]
        fn rejected_codings_are_not_chosen(
            line in "((gzip|br|zstd|identity|[*])(;q=(0|1|0[.][0-9]{1,3}))?,? ?){0,8}",
            refused in 0..4usize,
            at_start: bool,
        ) {
            let refused = Coding::ALL[refused];
            let no = format!("{};q=0", refused.name());
            let line = if at_start { format!("{no}, {line}") } else { format!("{line}, {no}") };
            let accepted = Accepted::from_lines([line.as_bytes()]);
            prop_assert!(!accepted.takes(refused) && accepted.in_order().all(|c| c != refused));
        }

        #[test]
        fn any_bytes_give_an_order(line in prop::collection::vec(any::<u8>(), 0..60)) {
            let accepted = Accepted::from_lines([&line[..]]);
            let order: Vec<_> = accepted.in_order().collect();
            prop_assert!(order.iter().all(|coding| accepted.takes(*coding)));
            prop_assert_eq!(order.len(), Coding::ALL.iter().filter(|c| accepted.takes(**c)).count());
        }
    }
}
