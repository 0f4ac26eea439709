//! Protocols to which a client proposes to switch from HTTP/1.1 (RFC 9110 §7.8).

use phalanx_http::{Body, Request, Version, elements};

use crate::proxy::fields::{Field, Named};

/// Protocols that must not be proposed to servers: they apply to a single connection, so the server would speak them
/// with this proxy instead of the client, or its requests would bypass the proxy's checks.
const OF_CONNECTION: [&[u8]; 4] = [b"h2", b"h2c", b"http", b"tls"];

/// The proposed protocols that a server may change to.
pub(super) struct Protocols(Vec<Vec<u8>>);

impl Protocols {
    /// The protocols that a request with this body proposes, whose `Connection` has `named` these fields.
    pub(super) fn of(request: &Request<'_>, body: Body, named: &Named<'_>) -> Self {
        if request.version != Version::Http11 || body != Body::None || !named.has(b"upgrade") {
            return Self(Vec::new());
        }
        let proposed = request.values("upgrade").flat_map(elements).filter(|protocol| {
            let name = protocol.split(|byte| *byte == b'/').next().unwrap_or_default();
            !OF_CONNECTION.iter().any(|other| other.eq_ignore_ascii_case(name))
        });
        Self(proposed.map(<[u8]>::to_vec).collect())
    }

    /// Whether the client proposes a protocol.
    pub(super) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// The value of `Upgrade` for a server; `None` if there is nothing to propose.
    pub(super) fn value(&self) -> Option<Vec<u8>> {
        (!self.0.is_empty()).then(|| self.0.join(&b", "[..]))
    }

    /// Whether a server may change to the protocols in its `fields`.
    pub(super) fn allow<'a>(&self, fields: impl Iterator<Item = Field<'a>>) -> bool {
        let values = fields.filter(|(name, _)| name.eq_ignore_ascii_case(b"upgrade"));
        let mut chosen = values.flat_map(|(_, value)| elements(value)).peekable();
        let is_proposed = |protocol: &[u8]| self.0.iter().any(|p| p.eq_ignore_ascii_case(protocol));
        chosen.peek().is_some() && chosen.all(is_proposed)
    }
}
