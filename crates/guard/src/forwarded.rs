//! The addresses of clients behind trusted proxies, from `X-Forwarded-For` or `Forwarded` (RFC 7239).
//!
//! Each proxy appends the address that connected to it. A client may send such a field itself, so only the entries that
//! trusted proxies have appended are believed: reading begins with the last entry, and ends with the first address that
//! is not trusted.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::networks::{Network, Networks};

/// The field in which trusted proxies name their clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardedField {
    /// `X-Forwarded-For`: a list of addresses.
    #[default]
    XForwardedFor,
    /// `Forwarded`: a list of parameters, of which `for` is the address.
    Forwarded,
}

impl ForwardedField {
    /// The name of the field.
    pub fn name(self) -> &'static str {
        match self {
            Self::XForwardedFor => "X-Forwarded-For",
            Self::Forwarded => "Forwarded",
        }
    }

    /// The name of the field with the host that the client has requested.
    pub fn host_name(self) -> &'static str {
        match self {
            Self::XForwardedFor => "X-Forwarded-Host",
            Self::Forwarded => "Forwarded",
        }
    }

    /// The host and port that the client has requested, as the last proxy says in these lines of
    /// [`host_name`](Self::host_name). `None` if it does not say so, or if they are not valid.
    pub fn host<'a>(self, mut lines: impl DoubleEndedIterator<Item = &'a [u8]>) -> Option<&'a str> {
        let last = take_last(&mut lines.next_back()?, b',')?;
        let host = match self {
            Self::XForwardedFor => last,
            Self::Forwarded => parameter(last, b"host")?,
        };
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(byte);
        let is_host = !host.is_empty() && host.iter().all(is_plain);
        str::from_utf8(host).ok().filter(|_| is_host)
    }

    /// The port that the client has used, as the last proxy says in these lines of `X-Forwarded-Port`. `None` if it does
    /// not say so, and in [`Forwarded`](Self::Forwarded), where the host contains the port.
    pub fn port<'a>(self, mut lines: impl DoubleEndedIterator<Item = &'a [u8]>) -> Option<u16> {
        let last = take_last(&mut lines.next_back()?, b',')?;
        let is_number = self == Self::XForwardedFor && last.iter().all(u8::is_ascii_digit);
        str::from_utf8(last).ok().filter(|_| is_number)?.parse().ok().filter(|port| *port > 0)
    }

    /// The name of the field with the scheme of the client's request.
    pub fn scheme_name(self) -> &'static str {
        match self {
            Self::XForwardedFor => "X-Forwarded-Proto",
            Self::Forwarded => "Forwarded",
        }
    }
}

/// The proxies that are trusted to name their clients.
///
/// ```
/// use phalanx_guard::{ForwardedField, TrustedProxies};
///
/// let networks = ["10.0.0.0/8".parse()?];
/// let proxies = TrustedProxies::new(&networks, ForwardedField::XForwardedFor).expect("not empty");
/// let proxy = "10.0.0.1".parse().unwrap();
/// // The client has sent the first address itself.
/// let lines = [&b"192.0.2.66, 203.0.113.9, 10.0.0.2"[..]];
/// assert_eq!(proxies.client(proxy, lines.into_iter()).to_string(), "203.0.113.9");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedProxies {
    networks: Networks,
    /// The field in which they name their clients.
    pub field: ForwardedField,
}

impl TrustedProxies {
    /// Trusts the proxies in `networks`; `None` if there are none.
    pub fn new(networks: &[Network], field: ForwardedField) -> Option<Self> {
        (!networks.is_empty()).then(|| Self { networks: Networks::new(networks), field })
    }

    /// Whether a proxy with this address is trusted.
    pub fn trusts(&self, address: IpAddr) -> bool {
        self.networks.contains(address)
    }

    /// The client of a request that the trusted `proxy` has passed on with these lines of [`field`](Self::field), in
    /// order. Without a valid entry, it is the last proxy known.
    pub fn client<'a>(
        &self,
        proxy: IpAddr,
        lines: impl DoubleEndedIterator<Item = &'a [u8]>,
    ) -> IpAddr {
        let mut client = proxy;
        for mut line in lines.rev() {
            while let Some(entry) = take_last(&mut line, b',') {
                if entry.is_empty() {
                    continue;
                }
                let Some(address) = self.address(entry) else { return client };
                client = address.to_canonical();
                if !self.trusts(client) {
                    return client;
                }
            }
        }
        client
    }

    /// Whether the client of a request with these lines of [`scheme_name`](ForwardedField::scheme_name) has used TLS, as
    /// the last proxy says; `None` if it does not say so.
    pub fn is_tls<'a>(&self, mut lines: impl DoubleEndedIterator<Item = &'a [u8]>) -> Option<bool> {
        let last = take_last(&mut lines.next_back()?, b',')?;
        let scheme = match self.field {
            ForwardedField::XForwardedFor => last,
            ForwardedField::Forwarded => parameter(last, b"proto")?,
        };
        // Schemes ignore case (RFC 3986 §3.1).
        match scheme.to_ascii_lowercase()[..] {
            [b'h', b't', b't', b'p'] => Some(false),
            [b'h', b't', b't', b'p', b's'] => Some(true),
            _ => None,
        }
    }

    fn address(&self, entry: &[u8]) -> Option<IpAddr> {
        match self.field {
            ForwardedField::XForwardedFor => address(entry),
            ForwardedField::Forwarded => address(parameter(entry, b"for")?),
        }
    }
}

/// Takes the last element from a list, without surrounding white space. Separators within quotes do not count. A quote
/// that a client did not close affects no element behind the comma that a proxy has appended.
fn take_last<'a>(list: &mut &'a [u8], separator: u8) -> Option<&'a [u8]> {
    let (before, last) = (*list, list.len());
    if last == 0 {
        return None;
    }
    let mut quoted = false;
    for at in (0..last).rev() {
        // Before an opening quote is an equals sign, so one behind a backslash belongs to the text.
        let escaped = quoted && at > 0 && before[at - 1] == b'\\';
        if before[at] == b'"' && !escaped {
            quoted = !quoted;
        } else if before[at] == separator && !quoted {
            *list = &before[..at];
            return Some(before[at + 1..].trim_ascii());
        }
    }
    *list = &[];
    Some(before.trim_ascii())
}

/// The value of a parameter of an element of `Forwarded`.
fn parameter<'a>(mut element: &'a [u8], expected: &[u8]) -> Option<&'a [u8]> {
    let mut found = None;
    while let Some(pair) = take_last(&mut element, b';') {
        if pair.is_empty() {
            continue;
        }
        let at = pair.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (&pair[..at], &pair[at + 1..]);
        if name.trim_ascii().eq_ignore_ascii_case(expected) {
            if found.is_some() {
                return None;
            }
            let value = value.trim_ascii();
            let quoted = value.strip_prefix(b"\"").map(|rest| rest.strip_suffix(b"\""));
            found = Some(quoted.unwrap_or(Some(value))?);
        }
    }
    found
}

/// An address, with or without a port; an IPv6 address may have brackets.
fn address(text: &[u8]) -> Option<IpAddr> {
    let text = str::from_utf8(text).ok()?;
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok();
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    text.parse().ok().or_else(with_port).or_else(|| bracketed().map(IpAddr::V6))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn proxies(field: ForwardedField) -> TrustedProxies {
        let networks = ["10.0.0.0/8", "2001:db8::/32"].map(|text| text.parse().unwrap());
        TrustedProxies::new(&networks, field).unwrap()
    }

    fn client(field: ForwardedField, lines: &[&str]) -> String {
        let lines = lines.iter().map(|line| line.as_bytes());
        proxies(field).client("10.0.0.1".parse().unwrap(), lines).to_string()
    }

    #[test]
    fn the_rightmost_address_that_is_not_trusted() {
        for (lines, expected) in [
            (&[][..], "10.0.0.1"),
            (&[""], "10.0.0.1"),
            (&["1.2.3.4"], "1.2.3.4"),
            (&[" 1.2.3.4 , "], "1.2.3.4"),
            (&["6.6.6.6, 1.2.3.4"], "1.2.3.4"),
            (&["6.6.6.6, 1.2.3.4, 10.0.0.2,10.0.0.3"], "1.2.3.4"),
            (&["6.6.6.6", "1.2.3.4", "10.0.0.2"], "1.2.3.4"),
            (&["10.0.0.7, 10.0.0.2"], "10.0.0.7"),
            (&["1.2.3.4:5678"], "1.2.3.4"),
            (&["::ffff:1.2.3.4"], "1.2.3.4"),
            (&["::ffff:10.0.0.2, ::1"], "::1"),
            (&["2001:db8::1, [2001:db8::2]:80, [2001:db8::3]"], "2001:db8::1"),
            (&["1.2.3.4, unknown, 10.0.0.2"], "10.0.0.2"),
            (&["unknown"], "10.0.0.1"),
            (&["1.2.3.4\", 5.6.7.8"], "5.6.7.8"),
        ] {
            assert_eq!(client(ForwardedField::XForwardedFor, lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn elements_of_forwarded() {
        for (lines, expected) in [
            (&["for=1.2.3.4"][..], "1.2.3.4"),
            (&["For=\"[::1]:4711\";proto=https"], "::1"),
            (&["for=6.6.6.6, by=_x; for=\"1.2.3.4:80\", for=10.0.0.2;host=\"a,b;c\""], "1.2.3.4"),
            (&["for=6.6.6.6", "for=10.0.0.2;host=\"a\\\", for=7.7.7.7\\\"\""], "6.6.6.6"),
            (&["for=\"6.6.6.6, for=1.2.3.4"], "1.2.3.4"),
            (&["for=1.2.3.4; "], "1.2.3.4"),
            (&["for=1.2.3.4, proto=http"], "10.0.0.1"),
            (&["for=1.2.3.4;for=5.6.7.8"], "10.0.0.1"),
            (&["for=_hidden"], "10.0.0.1"),
            (&["for=\"1.2.3.4"], "10.0.0.1"),
            (&["1.2.3.4"], "10.0.0.1"),
        ] {
            assert_eq!(client(ForwardedField::Forwarded, lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn the_last_scheme() {
        use ForwardedField::{Forwarded, XForwardedFor};
        for (field, lines, expected) in [
            (XForwardedFor, &["https"][..], Some(true)),
            (XForwardedFor, &["http, https", "https, http"], Some(false)),
            (XForwardedFor, &["https, "], None),
            (XForwardedFor, &["HTTPS"], Some(true)),
            (XForwardedFor, &["ws"], None),
            (Forwarded, &["proto=Http"], Some(false)),
            (XForwardedFor, &[], None),
            (
                Forwarded,
                &["proto=http", "for=1.2.3.4;proto=http, for=1.2.3.4;proto=\"https\""],
                Some(true),
            ),
            (Forwarded, &["proto=https, for=1.2.3.4"], None),
            (Forwarded, &["proto=https;proto=http"], None),
        ] {
            let found = proxies(field).is_tls(lines.iter().map(|line| line.as_bytes()));
            assert_eq!(found, expected, "{field:?} {lines:?}");
        }
    }

    #[test]
    fn the_last_host_and_port() {
        use ForwardedField::{Forwarded, XForwardedFor};
        for (field, lines, expected) in [
            (XForwardedFor, &["a.example"][..], Some("a.example")),
            (XForwardedFor, &["evil, a.example:8443"], Some("a.example:8443")),
            (XForwardedFor, &["evil", "[::1]:80"], Some("[::1]:80")),
            (XForwardedFor, &["a\" b"], None),
            (XForwardedFor, &["a/b"], None),
            (XForwardedFor, &[""], None),
            (XForwardedFor, &[], None),
            (Forwarded, &["for=1.2.3.4;host=\"a.example:1\""], Some("a.example:1")),
            (Forwarded, &["host=evil, for=1.2.3.4"], None),
        ] {
            let found = field.host(lines.iter().map(|line| line.as_bytes()));
            assert_eq!(found, expected, "{field:?} {lines:?}");
        }
        for (text, expected) in
            [("8443", Some(8443)), ("80, 443", Some(443)), ("0", None), ("+1", None), ("", None)]
        {
            assert_eq!(XForwardedFor.port([text.as_bytes()].into_iter()), expected, "{text}");
            assert_eq!(Forwarded.port([text.as_bytes()].into_iter()), None);
        }
    }

    proptest! {
        /// The entry that a trusted proxy appends is believed, regardless of the client's own.
        #[test]
        fn fields_of_untrusted_clients_are_ignored(sent in "[ -~]{0,60}", own_line in any::<bool>()) {
            for (field, entry) in [
                (ForwardedField::XForwardedFor, "203.0.113.9"),
                (ForwardedField::Forwarded, "for=203.0.113.9;host=\"h\""),
            ] {
                let joined = format!("{sent}, {entry}");
                let lines = if own_line { vec![&sent[..], entry] } else { vec![&joined[..]] };
                prop_assert_eq!(client(field, &lines), "203.0.113.9");
            }
        }
    }
}
