//! Fields that are not passed on.

use phalanx_http::elements;

/// Fields that concern one connection only (RFC 9110 §7.6.1), and those that the proxy composes: the framing of content
/// and the host.
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

/// Fields about the client that servers trust, so that a client must not send them. The proxy writes its own, which
/// may repeat those of a trusted proxy. CGI programs would read `Proxy` as
/// the address of a proxy for their own requests.
const OF_PROXY: [&str; 3] = ["forwarded", "proxy", "x-real-ip"];
const OF_PROXY_PREFIX: &str = "x-forwarded-";

/// Fields of a server that this one writes itself. `Alt-Svc` announces a port of that server, for which clients would look
/// at this host (RFC 7838 §2.1).
const OF_SERVER: [&str; 3] = ["alt-svc", "date", "server"];

/// The fields that `Connection` names, which concern one connection only.
pub(super) struct Named<'a>(Vec<&'a [u8]>);

impl<'a> Named<'a> {
    /// Reads the values of `Connection` among `fields`.
    pub(super) fn of(fields: impl Iterator<Item = (&'a str, &'a [u8])>) -> Self {
        let values = fields.filter(|(name, _)| name.eq_ignore_ascii_case("connection"));
        Self(values.flat_map(|(_, value)| elements(value)).collect())
    }

    /// Whether the list contains `option`.
    pub(super) fn has(&self, option: &str) -> bool {
        self.0.iter().any(|named| named.eq_ignore_ascii_case(option.as_bytes()))
    }
}

/// Whether a request's field is passed to a server.
pub(super) fn is_for_server(name: &str, named: &Named<'_>) -> bool {
    // CGI programs see hyphens as underscores, so both spellings of a name are the same for them.
    let lower = name.to_ascii_lowercase().replace('_', "-");
    !OF_CONNECTION.contains(&&*lower)
        && !OF_PROXY.contains(&&*lower)
        && !lower.starts_with(OF_PROXY_PREFIX)
        && !named.has(name)
}

/// Whether a response's field is passed to the client.
pub(super) fn is_for_client(name: &str, named: &Named<'_>) -> bool {
    let is = |other: &&str| name.eq_ignore_ascii_case(other);
    !OF_CONNECTION.iter().any(&is) && !OF_SERVER.iter().any(is) && !named.has(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_request() {
        let fields = [("Connection", &b"close, X-Secret"[..]), ("connection", b"upgrade")];
        let named = Named::of(fields.into_iter());
        assert!(named.has("Upgrade") && !named.has("keep-alive"));
        for name in ["Accept", "Cookie", "Authorization", "X-Forward"] {
            assert!(is_for_server(name, &named), "{name}");
        }
        for name in [
            "Host",
            "TE",
            "Transfer-Encoding",
            "Content_Length",
            "X-Forwarded-For",
            "x_forwarded_proto",
            "Forwarded",
            "X-Real-IP",
            "Proxy",
            "x-secret",
            "Upgrade",
            "Expect",
        ] {
            assert!(!is_for_server(name, &named), "{name}");
        }
        assert!(is_for_client("ETag", &named) && is_for_client("Set-Cookie", &named));
        assert!(!is_for_client("Date", &named) && !is_for_client("Alt-Svc", &named));
        assert!(!is_for_client("Keep-Alive", &named));
    }
}
