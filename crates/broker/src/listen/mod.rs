//! Listen addresses and their protocols.

pub(crate) mod metrics;

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use phalanx_service::ListenAddress;

/// Protocol of a listen address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// MQTT over TCP.
    Mqtt,
    /// MQTT over TLS, with the certificate of [`Security::tls`](crate::Security::tls).
    Mqtts,
    /// MQTT over WebSocket.
    Ws,
    /// MQTT over WebSocket and TLS.
    Wss,
}

/// An address at which the broker listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The actual address.
    pub(crate) listen: Listen,
    /// The address in the configuration, possibly with port 0.
    pub(crate) configured: ListenAddress,
}

impl Bound {
    /// An address without its own settings.
    pub(crate) fn fixed(listen: Listen) -> Self {
        Self { listen, configured: listen.address }
    }
}

/// An address to listen on.
///
/// ```
/// use phalanx_broker::{Listen, Scheme};
///
/// let listen: Listen = "wss://127.0.0.1:8084".parse()?;
/// assert_eq!(listen.scheme, Scheme::Wss);
/// assert_eq!("127.0.0.1:1883".parse::<Listen>()?.to_string(), "mqtt://127.0.0.1:1883");
/// # Ok::<(), String>(())
/// ```
pub type Listen = phalanx_service::Listen<Scheme>;

impl phalanx_service::Scheme for Scheme {
    type Kind = Bound;

    const ALL: &'static [(&'static str, Self)] =
        &[("mqtt", Self::Mqtt), ("mqtts", Self::Mqtts), ("ws", Self::Ws), ("wss", Self::Wss)];

    fn is_tls(self) -> bool {
        matches!(self, Self::Mqtts | Self::Wss)
    }

    fn kind(listen: Listen, configured: ListenAddress, _: Option<u16>) -> Bound {
        Bound { listen, configured }
    }
}

impl Scheme {
    /// A listen address with this protocol.
    pub fn at(self, address: impl Into<SocketAddr>) -> Listen {
        Listen::new(address, self)
    }

    /// Whether connections use WebSocket.
    pub(crate) fn is_websocket(self) -> bool {
        matches!(self, Self::Ws | Self::Wss)
    }
}

/// Maximum number of stored addresses.
const MAX_INTERNED: usize = 1024;

/// A copy that lives as long as the program, so that connections refer to it with one word. Each listen address, and each
/// address of a bridge, is stored once. Beyond [`MAX_INTERNED`] the copy has no address.
pub(crate) fn interned(listen: Listen) -> &'static Listen {
    static ALL: Mutex<Vec<&'static Listen>> = Mutex::new(Vec::new());
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = all.iter().find(|other| ***other == listen) {
        return known;
    }
    let is_full = all.len() >= MAX_INTERNED;
    let listen = if is_full { listen.scheme.at(([0, 0, 0, 0], 0)) } else { listen };
    if let Some(known) = all.iter().find(|other| is_full && ***other == listen) {
        return known;
    }
    // Beyond the limit, at most one more copy for each protocol is leaked.
    let listen: &'static Listen = Box::leak(Box::new(listen));
    all.push(listen);
    listen
}
