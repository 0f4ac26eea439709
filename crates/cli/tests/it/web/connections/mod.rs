//! Connections: framing, HTTP/2, TLS, limits, and misbehaving clients.

mod framing;
mod http2;
mod http2_limits;
mod networks;
mod overload;
mod redirects;
mod refusals;
pub(crate) mod slow_clients;
mod timeouts;
mod tls;
mod unix_sockets;
