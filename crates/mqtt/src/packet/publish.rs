//! PUBLISH, the most frequent packet.

use std::num::NonZero;

use crate::error::Error;
use crate::frame::{Frame, Kind};
use crate::properties::{Properties, PropertyContext};
use crate::reason::Reason;
use crate::topic;
use crate::version::Version;
use crate::wire::{MAX_VARIABLE, Reader, put_u16, put_variable};

/// Identifies a packet until it is acknowledged.
pub type PacketId = NonZero<u16>;

/// Quality of service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum QoS {
    /// QoS 0: sent once, without acknowledgement.
    #[default]
    AtMostOnce = 0,
    /// QoS 1: retransmitted until acknowledged.
    AtLeastOnce = 1,
    /// QoS 2: retransmitted without duplicates.
    ExactlyOnce = 2,
}

impl QoS {
    /// The QoS with this number.
    ///
    /// # Errors
    /// If `number` is more than 2.
    pub const fn from_u8(number: u8) -> Result<Self, Error> {
        match number {
            0 => Ok(Self::AtMostOnce),
            1 => Ok(Self::AtLeastOnce),
            2 => Ok(Self::ExactlyOnce),
            _ => Err(Error::malformed("the QoS is 3")),
        }
    }
}

/// The QoS of a message, with its packet identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// QoS 0, without an identifier.
    AtMostOnce,
    /// QoS 1.
    AtLeastOnce(PacketId),
    /// QoS 2.
    ExactlyOnce(PacketId),
}

impl Delivery {
    /// The QoS.
    pub const fn qos(self) -> QoS {
        match self {
            Self::AtMostOnce => QoS::AtMostOnce,
            Self::AtLeastOnce(_) => QoS::AtLeastOnce,
            Self::ExactlyOnce(_) => QoS::ExactlyOnce,
        }
    }

    /// The packet identifier.
    pub const fn id(self) -> Option<PacketId> {
        match self {
            Self::AtMostOnce => None,
            Self::AtLeastOnce(id) | Self::ExactlyOnce(id) => Some(id),
        }
    }
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Publish<'a> {
    /// The topic, without wildcards. Empty in MQTT 5 if an alias replaces it.
    pub topic: &'a str,
    /// The payload.
    pub payload: &'a [u8],
    /// The QoS and packet identifier.
    pub delivery: Delivery,
    /// To a server: retain the message. From a server: it was retained.
    pub retain: bool,
    /// Whether this is a retransmission.
    pub duplicate: bool,
    /// Empty in 3.1.1.
    pub properties: Properties<'a>,
}

const RETAIN: u8 = 0x01;
const DUPLICATE: u8 = 0x08;

impl<'a> Publish<'a> {
    #[inline]
    pub(crate) fn decode(frame: Frame<'a>, version: Version) -> Result<Self, Error> {
        let mut reader = Reader(frame.body);
        let topic = reader.text()?;
        if !topic.is_empty() || version == Version::V3 {
            topic::check_name(topic)?;
        }
        let duplicate = frame.flags & DUPLICATE != 0;
        let delivery = match QoS::from_u8(frame.flags >> 1 & 3)? {
            QoS::AtMostOnce if duplicate => {
                return Err(Error::malformed("a QoS 0 message has the DUP flag"));
            }
            QoS::AtMostOnce => Delivery::AtMostOnce,
            QoS::AtLeastOnce => Delivery::AtLeastOnce(reader.id()?),
            QoS::ExactlyOnce => Delivery::ExactlyOnce(reader.id()?),
        };
        let properties =
            version.properties(&mut reader, PropertyContext::for_packet(Kind::Publish))?;
        let retain = frame.flags & RETAIN != 0;
        Ok(Self { topic, payload: reader.0, delivery, retain, duplicate, properties })
    }

    #[inline]
    pub(crate) fn encode(&self, version: Version, out: &mut Vec<u8>) -> Result<(), Error> {
        let topic = u16::try_from(self.topic.len()).map_err(|_| topic::TOPIC_TOO_LONG)?;
        let id = self.delivery.id();
        let properties = match version {
            Version::V3 => 0,
            Version::V5 => self.properties.size(),
        };
        let length =
            2 + self.topic.len() + 2 * usize::from(id.is_some()) + properties + self.payload.len();
        if length > MAX_VARIABLE {
            let message = "the packet exceeds the protocol's maximum size";
            return Err(Error::new(Reason::PACKET_TOO_LARGE, message));
        }
        out.reserve(5 + length);
        let flags = (self.delivery.qos() as u8) << 1
            | if self.retain { RETAIN } else { 0 }
            | if self.duplicate { DUPLICATE } else { 0 };
        out.push((Kind::Publish as u8) << 4 | flags);
        put_variable(out, length);
        put_u16(out, topic);
        out.extend_from_slice(self.topic.as_bytes());
        if let Some(id) = id {
            put_u16(out, id.get());
        }
        version.put_properties(out, self.properties);
        out.extend_from_slice(self.payload);
        Ok(())
    }
}
