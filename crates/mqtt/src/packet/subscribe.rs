//! SUBSCRIBE, UNSUBSCRIBE and their responses.

use super::publish::{PacketId, QoS};
use crate::error::Error;
use crate::frame::{Frame, Kind, framed};
use crate::properties::{Properties, PropertyContext};
use crate::reason::Reason;
use crate::version::Version;
use crate::wire::{Reader, put_bytes, put_u16};

/// Which retained messages are sent for a subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RetainHandling {
    /// All matching ones, for each SUBSCRIBE.
    #[default]
    Send = 0,
    /// All matching ones, if the subscription is new.
    SendIfNew = 1,
    /// None.
    DoNotSend = 2,
}

/// The options of a subscription. 3.1.1 has only the QoS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SubscribeOptions {
    /// Maximum QoS of its messages.
    pub qos: QoS,
    /// Whether to exclude the client's own messages.
    pub no_local: bool,
    /// Whether messages keep the retain flag that they were published with.
    pub retain_as_published: bool,
    /// Which retained messages are sent.
    pub retain_handling: RetainHandling,
}

impl SubscribeOptions {
    fn read(byte: u8, version: Version) -> Result<Self, Error> {
        let reserved = match version {
            Version::V3 => 0xfc,
            Version::V5 => 0xc0,
        };
        if byte & reserved != 0 {
            return Err(Error::malformed("reserved options of a subscription are set"));
        }
        Ok(Self {
            qos: QoS::from_u8(byte & 3)?,
            no_local: byte & 0x04 != 0,
            retain_as_published: byte & 0x08 != 0,
            retain_handling: match byte >> 4 {
                0 => RetainHandling::Send,
                1 => RetainHandling::SendIfNew,
                2 => RetainHandling::DoNotSend,
                _ => return Err(Error::protocol("the retain handling is 3")),
            },
        })
    }

    /// Encodes the options in one byte, as in SUBSCRIBE.
    pub const fn to_byte(self) -> u8 {
        self.qos as u8
            | (self.no_local as u8) << 2
            | (self.retain_as_published as u8) << 3
            | (self.retain_handling as u8) << 4
    }

    /// Decodes a byte written by [`to_byte`](Self::to_byte).
    ///
    /// # Errors
    /// If the byte is invalid.
    pub fn from_byte(byte: u8) -> Result<Self, Error> {
        Self::read(byte, Version::V5)
    }
}

/// The topic filters of a SUBSCRIBE, with options, or of an UNSUBSCRIBE. They are non-empty strings
/// (MQTT-4.7.3-1); the server validates and answers each filter separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscriptions<'a> {
    bytes: &'a [u8],
    /// Whether each filter is followed by a byte of options.
    options: bool,
}

impl<'a> Subscriptions<'a> {
    fn read(reader: &mut Reader<'a>, options: Option<Version>) -> Result<Self, Error> {
        let bytes = reader.0;
        if bytes.is_empty() {
            return Err(Error::protocol("the topic filter is missing"));
        }
        while !reader.is_empty() {
            if reader.text()?.is_empty() {
                return Err(Error::protocol("a topic filter is empty"));
            }
            if let Some(version) = options {
                let byte = reader.byte()?;
                SubscribeOptions::read(byte, version)?;
            }
        }
        Ok(Self { bytes, options: options.is_some() })
    }

    /// The topic filters with their options; the default options for UNSUBSCRIBE.
    pub fn iter(self) -> impl Iterator<Item = (&'a str, SubscribeOptions)> {
        let mut reader = Reader(self.bytes);
        std::iter::from_fn(move || {
            // The filters were validated, so only the end of input fails.
            let filter = reader.text().ok()?;
            let options = match self.options {
                true => SubscribeOptions::from_byte(reader.byte().ok()?).ok()?,
                false => SubscribeOptions::default(),
            };
            Some((filter, options))
        })
    }
}

/// A buffer for encoding topic filters.
///
/// ```
/// use phalanx_mqtt::{SubscribeOptions, SubscriptionBuffer};
///
/// let mut wanted = SubscriptionBuffer::new();
/// wanted.push("doors/+", SubscribeOptions::default())?;
/// assert_eq!(wanted.to_subscribe().iter().count(), 1);
/// # Ok::<(), phalanx_mqtt::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct SubscriptionBuffer {
    with_options: Vec<u8>,
    without_options: Vec<u8>,
}

impl SubscriptionBuffer {
    /// An empty buffer.
    pub const fn new() -> Self {
        Self { with_options: Vec::new(), without_options: Vec::new() }
    }

    /// Appends a topic filter.
    ///
    /// # Errors
    /// If it is longer than 65,535 bytes; then nothing is appended.
    pub fn push(&mut self, filter: &str, options: SubscribeOptions) -> Result<(), Error> {
        put_bytes(&mut self.without_options, filter.as_bytes())?;
        put_bytes(&mut self.with_options, filter.as_bytes())?;
        self.with_options.push(options.to_byte());
        Ok(())
    }

    /// The filters for a [`Subscribe`].
    pub fn to_subscribe(&self) -> Subscriptions<'_> {
        Subscriptions { bytes: &self.with_options, options: true }
    }

    /// The filters for an [`Unsubscribe`].
    pub fn to_unsubscribe(&self) -> Subscriptions<'_> {
        Subscriptions { bytes: &self.without_options, options: false }
    }
}

/// A subscription request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscribe<'a> {
    /// Its packet identifier.
    pub id: PacketId,
    /// At least one filter.
    pub filters: Subscriptions<'a>,
    /// Empty in 3.1.1.
    pub properties: Properties<'a>,
}

impl<'a> Subscribe<'a> {
    pub(crate) fn decode(frame: Frame<'a>, version: Version) -> Result<Self, Error> {
        let mut reader = Reader(frame.body);
        let id = reader.id()?;
        let properties =
            version.properties(&mut reader, PropertyContext::for_packet(Kind::Subscribe))?;
        Ok(Self { id, properties, filters: Subscriptions::read(&mut reader, Some(version))? })
    }

    pub(crate) fn encode(&self, version: Version, out: &mut Vec<u8>) -> Result<(), Error> {
        framed(out, Kind::Subscribe, |out| {
            put_u16(out, self.id.get());
            version.put_properties(out, self.properties);
            for (filter, options) in self.filters.iter() {
                put_bytes(out, filter.as_bytes())?;
                out.push(match version {
                    Version::V3 => options.qos as u8,
                    Version::V5 => options.to_byte(),
                });
            }
            Ok(())
        })
    }
}

/// An unsubscription request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsubscribe<'a> {
    /// Its packet identifier.
    pub id: PacketId,
    /// At least one filter, as in SUBSCRIBE.
    pub filters: Subscriptions<'a>,
    /// Empty in 3.1.1.
    pub properties: Properties<'a>,
}

impl<'a> Unsubscribe<'a> {
    pub(crate) fn decode(frame: Frame<'a>, version: Version) -> Result<Self, Error> {
        let mut reader = Reader(frame.body);
        let id = reader.id()?;
        let properties =
            version.properties(&mut reader, PropertyContext::for_packet(Kind::Unsubscribe))?;
        Ok(Self { id, properties, filters: Subscriptions::read(&mut reader, None)? })
    }

    pub(crate) fn encode(&self, version: Version, out: &mut Vec<u8>) -> Result<(), Error> {
        framed(out, Kind::Unsubscribe, |out| {
            put_u16(out, self.id.get());
            version.put_properties(out, self.properties);
            self.filters.iter().try_for_each(|(filter, _)| put_bytes(out, filter.as_bytes()))
        })
    }
}

/// The response to a [`Subscribe`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubAck<'a> {
    /// The packet identifier of the request.
    pub id: PacketId,
    /// The code of a [`Reason`] for each filter: the granted QoS, or a failure.
    pub reasons: &'a [u8],
    /// Empty in 3.1.1.
    pub properties: Properties<'a>,
}

/// The response to an [`Unsubscribe`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsubAck<'a> {
    /// The packet identifier of the request.
    pub id: PacketId,
    /// The code of a [`Reason`] for each filter; empty in 3.1.1.
    pub reasons: &'a [u8],
    /// Empty in 3.1.1.
    pub properties: Properties<'a>,
}

impl<'a> SubAck<'a> {
    pub(crate) fn decode(frame: Frame<'a>, version: Version) -> Result<Self, Error> {
        let mut reader = Reader(frame.body);
        let id = reader.id()?;
        let properties =
            version.properties(&mut reader, PropertyContext::for_packet(Kind::SubAck))?;
        if version == Version::V3 && reader.0.iter().any(|code| !matches!(code, 0..=2 | 0x80)) {
            return Err(Error::malformed("SUBACK has an unknown return code"));
        }
        Ok(Self { id, properties, reasons: reader.0 })
    }

    pub(crate) fn encode(&self, version: Version, out: &mut Vec<u8>) -> Result<(), Error> {
        framed(out, Kind::SubAck, |out| {
            put_u16(out, self.id.get());
            version.put_properties(out, self.properties);
            match version {
                Version::V5 => out.extend_from_slice(self.reasons),
                // 3.1.1 has a single failure code.
                Version::V3 => out.extend(self.reasons.iter().map(|code| match Reason(*code) {
                    reason if reason.is_failure() => Reason::UNSPECIFIED_ERROR.0,
                    reason => reason.0,
                })),
            }
            Ok(())
        })
    }
}

impl<'a> UnsubAck<'a> {
    pub(crate) fn decode(frame: Frame<'a>, version: Version) -> Result<Self, Error> {
        let mut reader = Reader(frame.body);
        let id = reader.id()?;
        let properties =
            version.properties(&mut reader, PropertyContext::for_packet(Kind::UnsubAck))?;
        if version == Version::V3 {
            reader.end()?;
        }
        Ok(Self { id, properties, reasons: reader.0 })
    }

    pub(crate) fn encode(&self, version: Version, out: &mut Vec<u8>) -> Result<(), Error> {
        framed(out, Kind::UnsubAck, |out| {
            put_u16(out, self.id.get());
            version.put_properties(out, self.properties);
            if version == Version::V5 {
                out.extend_from_slice(self.reasons);
            }
            Ok(())
        })
    }
}
