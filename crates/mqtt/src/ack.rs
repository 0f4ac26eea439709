//! PUBACK, PUBREC, PUBREL and PUBCOMP: what follows a message of QoS 1 or 2. They have one form.

use crate::error::Error;
use crate::frame::{Frame, Kind, framed};
use crate::packet::Version;
use crate::properties::Properties;
use crate::property::PropertyContext;
use crate::publish::PacketId;
use crate::reason::Reason;
use crate::wire::{Reader, put_u16};

/// A step of a message's delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack<'a> {
    /// The message's number.
    pub id: PacketId,
    /// How it went. 3.1.1 has no word for it: it is not written, and read as success.
    pub reason: Reason,
    /// None in 3.1.1.
    pub properties: Properties<'a>,
}

impl<'a> Ack<'a> {
    /// That it went well.
    pub const fn of(id: PacketId) -> Self {
        Self { id, reason: Reason::SUCCESS, properties: Properties::NONE }
    }

    pub(crate) fn decode(frame: Frame<'a>, version: Version) -> Result<Self, Error> {
        let mut reader = Reader(frame.body);
        let mut ack = Self::of(reader.id()?);
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

/// Both may be left out: then all is well. So may the properties alone.
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
        false => Properties::read(reader, PropertyContext::of(kind))?,
    };
    Ok((reason, properties))
}

/// Leaves out what may be left out.
pub(crate) fn put_reason_and_properties(
    out: &mut Vec<u8>,
    version: Version,
    reason: Reason,
    properties: Properties<'_>,
) {
    let nothing = reason == Reason::SUCCESS && properties.is_empty();
    if version == Version::V5 && !nothing {
        out.push(reason.0);
        if !properties.is_empty() {
            properties.write(out);
        }
    }
}
