//! Responds to rejected CONNECTs.

use phalanx::net::IoTimeout;
use phalanx_mqtt::{
    ConnAck, Connect, Error, Packet, Properties, Property, PropertyBuffer, Reason, Version,
};

use crate::config::Limits;
use crate::transport::Transport;

/// A rejected CONNECT.
pub(super) struct Refusal {
    pub(super) version: Version,
    /// Maximum packet size of the client, in bytes.
    pub(super) most: usize,
    pub(super) reason: Reason,
    pub(super) what: &'static str,
}

impl Refusal {
    pub(super) fn of(connect: &Connect<'_>, reason: Reason, what: &'static str) -> Self {
        let most = maximum_packet_size(connect.properties);
        Self { version: connect.version, most, reason, what }
    }
}

/// Maximum packet size of the client, in bytes.
pub(super) fn maximum_packet_size(properties: Properties<'_>) -> usize {
    let most = properties.iter().find_map(|property| match property {
        Property::MaximumPacketSize(bytes) => Some(bytes as usize),
        _ => None,
    });
    most.unwrap_or(usize::MAX)
}

/// The response to the malformed CONNECT at the start of `input`; `None` if it gets no response.
pub(super) fn answer_to_malformed(input: &[u8], error: Error) -> Option<Refusal> {
    let version = Connect::response_version(input)?;
    let (most, reason, what) = (usize::MAX, error.reason, error.message());
    // MQTT 3.1.1 requires closing the connection without a response (its MQTT-3.1.4-1).
    let is_told = version == Version::V5 || reason == Reason::UNSUPPORTED_PROTOCOL_VERSION;
    is_told.then_some(Refusal { version, most, reason, what })
}

/// Sends a CONNACK with the reason, and closes the connection.
pub(super) async fn refuse(stream: &Transport, limits: &Limits, refusal: Refusal) {
    let mut properties = PropertyBuffer::new();
    if !refusal.what.is_empty() {
        // Cannot fail: the reason string is short.
        let _ = properties.push(Property::ReasonString(refusal.what));
    }
    let (reason, properties) = (refusal.reason, properties.get());
    let ack = ConnAck { session_present: false, reason, properties };
    let mut bytes = Vec::new();
    if Packet::ConnAck(ack).encode_within(refusal.version, refusal.most, &mut bytes).is_ok() {
        let _ = stream.write(bytes, IoTimeout::after(limits.send)).await;
    }
    stream.linger().await;
}
