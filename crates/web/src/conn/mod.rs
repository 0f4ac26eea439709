//! New connections: accepting, the TLS handshake, and the choice of the protocol.

pub(crate) mod accept;
mod begin;
mod proxied;
pub(crate) mod quic;
mod reject;

pub(crate) use begin::AcceptContext;
