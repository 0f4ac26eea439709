//! DISCONNECT and AUTH.

use super::ack::{put_reason_and_properties, reason_and_properties};
use crate::error::Error;
use crate::frame::{Frame, Kind, framed};
use crate::properties::Properties;
use crate::reason::Reason;
use crate::version::Version;
use crate::wire::Reader;

/// A DISCONNECT. In 3.1.1 only clients send it, without a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disconnect<'a> {
    /// The reason.
    pub reason: Reason,
    /// Empty in 3.1.1.
    pub properties: Properties<'a>,
}

impl<'a> Disconnect<'a> {
    /// A DISCONNECT without properties.
    pub const fn new(reason: Reason) -> Self {
        Self { reason, properties: Properties::NONE }
    }

    pub(crate) fn decode(frame: Frame<'a>, version: Version) -> Result<Self, Error> {
        let mut reader = Reader(frame.body);
        let (reason, properties) = match version {
            Version::V3 => (Reason::SUCCESS, Properties::NONE),
            Version::V5 => reason_and_properties(&mut reader, Kind::Disconnect)?,
        };
        reader.end()?;
        Ok(Self { reason, properties })
    }

    pub(crate) fn encode(&self, version: Version, out: &mut Vec<u8>) -> Result<(), Error> {
        framed(out, Kind::Disconnect, |out| {
            put_reason_and_properties(out, version, self.reason, self.properties);
            Ok(())
        })
    }
}

/// A step of an extended authentication; MQTT 5 only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auth<'a> {
    /// The kind of step.
    pub reason: Reason,
    /// The method and data.
    pub properties: Properties<'a>,
}

impl<'a> Auth<'a> {
    pub(crate) fn decode(frame: Frame<'a>, version: Version) -> Result<Self, Error> {
        if version == Version::V3 {
            return Err(Error::malformed("MQTT 3.1.1 has no AUTH"));
        }
        let mut reader = Reader(frame.body);
        let (reason, properties) = reason_and_properties(&mut reader, Kind::Auth)?;
        reader.end()?;
        Ok(Self { reason, properties })
    }

    pub(crate) fn encode(&self, version: Version, out: &mut Vec<u8>) -> Result<(), Error> {
        if version == Version::V3 {
            return Err(Error::malformed("MQTT 3.1.1 has no AUTH"));
        }
        framed(out, Kind::Auth, |out| {
            put_reason_and_properties(out, version, self.reason, self.properties);
            Ok(())
        })
    }
}
