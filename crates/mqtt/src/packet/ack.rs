//! PUBACK, PUBREC, PUBREL and PUBCOMP, the acknowledgements of QoS 1 and 2. They share one format.

use super::publish::PacketId;
use crate::error::Error;
use crate::frame::{Frame, Kind, framed};
use crate::properties::{Properties, PropertyContext};
use crate::reason::Reason;
use crate::version::Version;
use crate::wire::{Reader, put_u16};

/// An acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack<'a> {
    /// The packet identifier of the message.
    pub id: PacketId,
    /// The result. 3.1.1 has none: it is not encoded, and decoded as success.
    pub reason: Reason,
    /// Empty in 3.1.1.
    pub properties: Properties<'a>,
}

impl<'a> Ack<'a> {
    /// A successful acknowledgement.
    pub const fn success(id: PacketId) -> Self {
        Self { id, reason: Reason::SUCCESS, properties: Properties::NONE }
    }

    pub(crate) fn decode(frame: Frame<'a>, version: Version) -> Result<Self, Error> {
        let mut reader = Reader(frame.body);
        let mut ack = Self::success(reader.id()?);
        if version == Version::V5 {
            (ack.reason, ack.properties) = reason_and_properties(&mut reader, frame.kind)?;
        }
        reader.end()?;
        Ok(ack)
    }

    pub(crate) fn encode(
        &self,
        kind: Kind,
        version: Version,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        framed(out, kind, |out| {
            put_u16(out, self.id.get());
            put_reason_and_properties(out, version, self.reason, self.properties);
            Ok(())
        })
    }
}

impl Frame<'_> {
    /// The packet identifier of a PUBACK without a reason code, which nearly all are; `None` for all other packets. This
    /// takes fewer instructions than [`Packet::decode`](super::Packet::decode), with the same result in both versions.
    #[inline]
    pub fn plain_puback(&self) -> Option<PacketId> {
        match (self.kind, self.body) {
            (Kind::PubAck, &[high, low]) => PacketId::new(u16::from_be_bytes([high, low])),
            _ => None,
        }
    }
}

/// Decodes the reason and the properties, which may be omitted in case of success. The properties may also be omitted
/// alone.
pub(crate) fn reason_and_properties<'a>(
    reader: &mut Reader<'a>,
    kind: Kind,
) -> Result<(Reason, Properties<'a>), Error> {
    if reader.is_empty() {
        return Ok((Reason::SUCCESS, Properties::NONE));
    }
    let reason = Reason(reader.byte()?);
    let properties = match reader.is_empty() {
        true => Properties::NONE,
        false => Properties::read(reader, PropertyContext::for_packet(kind))?,
    };
    Ok((reason, properties))
}

/// Encodes the reason and the properties, and omits defaults.
pub(crate) fn put_reason_and_properties(
    out: &mut Vec<u8>,
    version: Version,
    reason: Reason,
    properties: Properties<'_>,
) {
    let is_default = reason == Reason::SUCCESS && properties.is_empty();
    if version == Version::V5 && !is_default {
        out.push(reason.0);
        if !properties.is_empty() {
            properties.write(out);
        }
    }
}
