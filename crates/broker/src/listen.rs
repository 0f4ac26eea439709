//! Listen addresses and their protocols.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use phalanx_config::Value;

/// An address to listen on.
///
/// ```
/// use phalanx_broker::Listen;
///
/// let listen: Listen = "wss://127.0.0.1:8084".parse()?;
/// assert!(listen.tls && listen.websocket);
/// assert_eq!("127.0.0.1:1883".parse::<Listen>()?.to_string(), "mqtt://127.0.0.1:1883");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The address; port 0 selects a free port.
    pub address: SocketAddr,
    /// Whether connections use TLS, with the certificate of [`Security::tls`](crate::Security::tls).
    pub tls: bool,
    /// Whether connections use WebSocket.
    pub websocket: bool,
}

/// URL schemes: name, TLS, WebSocket.
const SCHEMES: [(&str, bool, bool); 4] =
    [("mqtt", false, false), ("mqtts", true, false), ("ws", false, true), ("wss", true, true)];

impl Listen {
    /// MQTT over TCP.
    pub fn mqtt(address: impl Into<SocketAddr>) -> Self {
        Self { address: address.into(), tls: false, websocket: false }
    }

    /// MQTT over TLS.
    pub fn mqtts(address: impl Into<SocketAddr>) -> Self {
        Self { tls: true, ..Self::mqtt(address) }
    }

    /// MQTT over WebSocket.
    pub fn ws(address: impl Into<SocketAddr>) -> Self {
        Self { websocket: true, ..Self::mqtt(address) }
    }

    /// MQTT over WebSocket and TLS.
    pub fn wss(address: impl Into<SocketAddr>) -> Self {
        Self { tls: true, ..Self::ws(address) }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = |(_, tls, websocket): &&(&str, bool, bool)| {
            (*tls, *websocket) == (self.tls, self.websocket)
        };
        let scheme = SCHEMES.iter().find(own).map_or("mqtt", |(scheme, ..)| scheme);
        write!(f, "{scheme}://{}", self.address)
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("{text:?}: expected {}", Self::expected());
        let (scheme, address) = text.split_once("://").unwrap_or(("mqtt", text));
        let known = SCHEMES.iter().find(|(own, ..)| *own == scheme);
        let (_, tls, websocket) = *known.ok_or_else(expected)?;
        Ok(Self {
            address: phalanx_service::address(address).map_err(|_| expected())?,
            tls,
            websocket,
        })
    }
}
