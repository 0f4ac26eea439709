//! SUBSCRIBE, UNSUBSCRIBE and their answers.

use crate::error::Error;
use crate::frame::{Frame, Kind, framed};
use crate::packet::Version;
use crate::properties::Properties;
use crate::property::PropertyContext;
use crate::publish::{PacketId, QoS};
use crate::reason::Reason;
use crate::wire::{Reader, put_bytes, put_u16};

/// What a subscription wants of the messages that are retained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RetainHandling {
    /// All that match, each time that it is asked for.
    #[default]
    Send = 0,
    /// All that match, where the subscription is new.
    SendIfNew = 1,
    /// None.
    DoNotSend = 2,
}

/// How a subscription's messages are sent. 3.1.1 has the QoS alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SubscribeOptions {
    /// The highest QoS that its messages are sent with.
    pub qos: QoS,
    /// Not those that the client has published itself.
    pub no_local: bool,
    /// Messages are sent with the retain flag that they were published with.
    pub retain_as_published: bool,
    /// What becomes of retained messages.
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
            qos: QoS::of(byte & 3)?,
            no_local: byte & 0x04 != 0,
            retain_as_published: byte & 0x08 != 0,
            retain_handling: match byte >> 4 {
                0 => RetainHandling::Send,
                1 => RetainHandling::SendIfNew,
                2 => RetainHandling::DoNotSend,
                _ => return Err(Error::protocol("there is no retain handling 3")),
            },
        })
    }

    /// As they stand in SUBSCRIBE: one byte.
    pub const fn to_byte(self) -> u8 {
        self.qos as u8
            | (self.no_local as u8) << 2
            | (self.retain_as_published as u8) << 3
            | (self.retain_handling as u8) << 4
    }

    /// What [`to_byte`](Self::to_byte) has written.
    ///
    /// # Errors
    /// When nothing is written so.
    pub fn of_byte(byte: u8) -> Result<Self, Error> {
        Self::read(byte, Version::V5)
    }
}

/// What a SUBSCRIBE asks for, or an UNSUBSCRIBE: topic filters, each with its options or with none. They are
/// text and not empty (MQTT-4.7.3-1); the server checks each further, and answers each by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscriptions<'a> {
    bytes: &'a [u8],
    /// A byte of options behind each.
    options: bool,
}

impl<'a> Subscriptions<'a> {
    fn read(reader: &mut Reader<'a>, options: Option<Version>) -> Result<Self, Error> {
        let bytes = reader.0;
        if bytes.is_empty() {
            return Err(Error::protocol("there is no topic filter"));
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

    /// Each topic filter and its options; those of an UNSUBSCRIBE are all default.
    pub fn iter(self) -> impl Iterator<Item = (&'a str, SubscribeOptions)> {
        let mut reader = Reader(self.bytes);
        std::iter::from_fn(move || {
            // Checked as a whole: only the end fails.
            let filter = reader.text().ok()?;
            let options = match self.options {
                true => SubscribeOptions::of_byte(reader.byte().ok()?).ok()?,
                false => SubscribeOptions::default(),
            };
            Some((filter, options))
        })
    }
}

/// Topic filters that are being written.
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
    without: Vec<u8>,
}

impl SubscriptionBuffer {
    /// None yet.
    pub const fn new() -> Self {
        Self { with_options: Vec::new(), without: Vec::new() }
    }

    /// Adds one.
    ///
    /// # Errors
    /// When it is longer than 65,535 bytes; nothing is added then.
    pub fn push(&mut self, filter: &str, options: SubscribeOptions) -> Result<(), Error> {
        put_bytes(&mut self.without, filter.as_bytes())?;
        put_bytes(&mut self.with_options, filter.as_bytes())?;
        self.with_options.push(options.to_byte());
        Ok(())
    }

    /// For a [`Subscribe`].
    pub fn to_subscribe(&self) -> Subscriptions<'_> {
        Subscriptions { bytes: &self.with_options, options: true }
    }

    /// For an [`Unsubscribe`].
    pub fn to_unsubscribe(&self) -> Subscriptions<'_> {
        Subscriptions { bytes: &self.without, options: false }
    }
}

/// A client asks for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscribe<'a> {
    /// By which it is answered.
    pub id: PacketId,
    /// Which messages; one filter at least.
    pub filters: Subscriptions<'a>,
    /// None in 3.1.1.
    pub properties: Properties<'a>,
}

impl<'a> Subscribe<'a> {
    pub(crate) fn decode(frame: Frame<'a>, version: Version) -> Result<Self, Error> {
        let mut reader = Reader(frame.body);
        let id = reader.id()?;
        let properties = version.properties(&mut reader, PropertyContext::of(Kind::Subscribe))?;
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

/// A client wants messages no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsubscribe<'a> {
    /// By which it is answered.
    pub id: PacketId,
    /// The filters as they were subscribed to; one at least.
    pub filters: Subscriptions<'a>,
    /// None in 3.1.1.
    pub properties: Properties<'a>,
}

impl<'a> Unsubscribe<'a> {
    pub(crate) fn decode(frame: Frame<'a>, version: Version) -> Result<Self, Error> {
        let mut reader = Reader(frame.body);
        let id = reader.id()?;
        let properties = version.properties(&mut reader, PropertyContext::of(Kind::Unsubscribe))?;
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

/// The answer to a [`Subscribe`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubAck<'a> {
    /// Whose answer it is.
    pub id: PacketId,
    /// A [`Reason`]'s byte for each filter: the QoS that was granted, or why none.
    pub reasons: &'a [u8],
    /// None in 3.1.1.
    pub properties: Properties<'a>,
}

/// The answer to an [`Unsubscribe`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsubAck<'a> {
    /// Whose answer it is.
    pub id: PacketId,
    /// A [`Reason`]'s byte for each filter; not in 3.1.1.
    pub reasons: &'a [u8],
    /// None in 3.1.1.
    pub properties: Properties<'a>,
}

impl<'a> SubAck<'a> {
    pub(crate) fn decode(frame: Frame<'a>, version: Version) -> Result<Self, Error> {
        let mut reader = Reader(frame.body);
        let id = reader.id()?;
        let properties = version.properties(&mut reader, PropertyContext::of(Kind::SubAck))?;
        if version == Version::V3 && reader.0.iter().any(|code| !matches!(code, 0..=2 | 0x80)) {
            return Err(Error::malformed("SUBACK has a return code that there is not"));
        }
        Ok(Self { id, properties, reasons: reader.0 })
    }

    pub(crate) fn encode(&self, version: Version, out: &mut Vec<u8>) -> Result<(), Error> {
        framed(out, Kind::SubAck, |out| {
            put_u16(out, self.id.get());
            version.put_properties(out, self.properties);
            match version {
                Version::V5 => out.extend_from_slice(self.reasons),
                // It knows of one failure only.
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
        let properties = version.properties(&mut reader, PropertyContext::of(Kind::UnsubAck))?;
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
