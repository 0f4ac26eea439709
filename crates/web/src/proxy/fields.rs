//! Fields that are not forwarded.

use phalanx_http::elements;

/// Hop-by-hop fields (RFC 9110 §7.6.1), and fields that the proxy writes itself: the framing of content and the host.
const OF_CONNECTION: [&str; 13] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Fields about the client that servers trust, so they must not come from the client. The proxy writes its own, which
/// may repeat those of a trusted proxy. `Proxy` is among them because CGI programs would use it as the proxy for their
/// own requests.
const OF_PROXY: [&str; 3] = ["forwarded", "proxy", "x-real-ip"];
const OF_PROXY_PREFIX: &str = "x-forwarded-";

/// Fields of an upstream server that this server replaces. `Alt-Svc` would announce a port of the upstream server,
/// which clients would look for at this server (RFC 7838 §2.1).
const OF_SERVER: [&str; 3] = ["alt-svc", "date", "server"];

/// The name and the value of a field.
pub(super) type Field<'a> = (&'a [u8], &'a [u8]);

/// The `fields` of a head.
pub(super) fn collect<'a>(fields: impl Iterator<Item = Field<'a>>) -> Vec<Field<'a>> {
    // Few heads have more, for which the memory must grow.
    let mut all = Vec::with_capacity(32);
    all.extend(fields);
    all
}

/// The fields named in `Connection`, which are hop-by-hop fields.
pub(super) struct Named<'a>(Vec<&'a [u8]>);

impl<'a> Named<'a> {
    /// Reads the values of `Connection` among `fields`.
    pub(super) fn of(fields: &[Field<'a>]) -> Self {
        let mut named = Vec::new();
        for (_, value) in fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"connection"))
        {
            named.extend(elements(value));
        }
        Self(named)
    }

    /// Whether the list contains `option`.
    pub(super) fn has(&self, option: &[u8]) -> bool {
        self.0.iter().any(|named| named.eq_ignore_ascii_case(option))
    }
}

/// Whether a field of a request is forwarded to a server.
pub(super) fn is_for_server(name: &[u8], named: &Named<'_>) -> bool {
    let is = |other: &&str| is_spelling_of(name, other);
    let has_prefix = name
        .get(..OF_PROXY_PREFIX.len())
        .is_some_and(|start| is_spelling_of(start, OF_PROXY_PREFIX));
    !OF_CONNECTION.iter().any(&is) && !OF_PROXY.iter().any(is) && !has_prefix && !named.has(name)
}

/// Whether CGI programs take `name` for `other`, which is in lower case: they see hyphens as underscores.
fn is_spelling_of(name: &[u8], other: &str) -> bool {
    let byte = |byte: u8| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    name.len() == other.len() && name.iter().copied().map(byte).eq(other.bytes())
}

/// Whether a field of a response is forwarded to the client.
pub(super) fn is_for_client(name: &[u8], named: &Named<'_>) -> bool {
    let is = |other: &&str| name.eq_ignore_ascii_case(other.as_bytes());
    !OF_CONNECTION.iter().any(&is) && !OF_SERVER.iter().any(is) && !named.has(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_request() {
        let fields = [(&b"Connection"[..], &b"close, X-Secret"[..]), (b"connection", b"upgrade")];
        let named = Named::of(&fields);
        assert!(named.has(b"Upgrade") && !named.has(b"keep-alive"));
        for name in ["Accept", "Cookie", "Authorization", "X-Forward"] {
            assert!(is_for_server(name.as_bytes(), &named), "{name}");
        }
        for name in [
            "Host",
            "TE",
            "Transfer-Encoding",
            "Content_Length",
            "X-Forwarded-For",
            "x_forwarded_proto",
            "X-Forwarded-",
            "Forwarded",
            "X-Real-IP",
            "Proxy",
            "x-secret",
            "Upgrade",
            "Expect",
        ] {
            assert!(!is_for_server(name.as_bytes(), &named), "{name}");
        }
        for name in ["ETag", "Set-Cookie"] {
            assert!(is_for_client(name.as_bytes(), &named), "{name}");
        }
        for name in ["Date", "Alt-Svc", "Keep-Alive"] {
            assert!(!is_for_client(name.as_bytes(), &named), "{name}");
        }
    }
}
