//! Packets of all kinds, in both versions.

mod ack;
mod connect;
mod content;
mod end;
mod publish;
mod subscribe;

use crate::error::Error;
use crate::frame::{Frame, Kind, framed};
use crate::properties::{Properties, PropertyContext};
use crate::reason::Reason;
use crate::version::Version;
use crate::wire::Reader;

pub use self::ack::Ack;
pub use self::connect::{ConnAck, Connect, Will};
pub use self::content::check_content;
pub use self::end::{Auth, Disconnect};
pub use self::publish::{Delivery, PacketId, Publish, QoS};
pub use self::subscribe::{
    RetainHandling, SubAck, Subscribe, SubscribeOptions, SubscriptionBuffer, Subscriptions,
    UnsubAck, Unsubscribe,
};

/// A packet. Its data is borrowed from the decoded bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Packet<'a> {
    /// Connection request.
    Connect(Connect<'a>),
    /// Response to CONNECT.
    ConnAck(ConnAck<'a>),
    /// A message.
    Publish(Publish<'a>),
    /// Acknowledgement of a QoS 1 message.
    PubAck(Ack<'a>),
    /// Receipt of a QoS 2 message.
    PubRec(Ack<'a>),
    /// Release of a QoS 2 message: it will not be retransmitted.
    PubRel(Ack<'a>),
    /// Completion of a QoS 2 message: its packet identifier is free.
    PubComp(Ack<'a>),
    /// Subscription request.
    Subscribe(Subscribe<'a>),
    /// Response to SUBSCRIBE.
    SubAck(SubAck<'a>),
    /// Unsubscription request.
    Unsubscribe(Unsubscribe<'a>),
    /// Response to UNSUBSCRIBE.
    UnsubAck(UnsubAck<'a>),
    /// Keep-alive request.
    PingReq,
    /// Keep-alive response.
    PingResp,
    /// End of a connection, with a reason.
    Disconnect(Disconnect<'a>),
    /// A step of an extended authentication.
    Auth(Auth<'a>),
}

impl<'a> Packet<'a> {
    /// Decodes a packet of a connection with this version. A CONNECT contains its version.
    ///
    /// # Errors
    /// If the packet is malformed or violates the protocol, with the reason code for the response.
    #[inline]
    pub fn decode(frame: Frame<'a>, version: Version) -> Result<Self, Error> {
        Ok(match frame.kind {
            Kind::Publish => Self::Publish(Publish::decode(frame, version)?),
            Kind::PubAck => Self::PubAck(Ack::decode(frame, version)?),
            Kind::PubRec => Self::PubRec(Ack::decode(frame, version)?),
            Kind::PubRel => Self::PubRel(Ack::decode(frame, version)?),
            Kind::PubComp => Self::PubComp(Ack::decode(frame, version)?),
            Kind::Connect => Self::Connect(Connect::decode(frame)?),
            Kind::ConnAck => Self::ConnAck(ConnAck::decode(frame, version)?),
            Kind::Subscribe => Self::Subscribe(Subscribe::decode(frame, version)?),
            Kind::SubAck => Self::SubAck(SubAck::decode(frame, version)?),
            Kind::Unsubscribe => Self::Unsubscribe(Unsubscribe::decode(frame, version)?),
            Kind::UnsubAck => Self::UnsubAck(UnsubAck::decode(frame, version)?),
            Kind::PingReq => Reader(frame.body).end().map(|()| Self::PingReq)?,
            Kind::PingResp => Reader(frame.body).end().map(|()| Self::PingResp)?,
            Kind::Disconnect => Self::Disconnect(Disconnect::decode(frame, version)?),
            Kind::Auth => Self::Auth(Auth::decode(frame, version)?),
        })
    }

    /// Appends the packet. Data that 3.1.1 does not support is omitted: properties, and most reasons. A
    /// CONNECT is encoded in its own version.
    ///
    /// # Errors
    /// If a string or the packet is too long to be encoded, or 3.1.1 has no such packet; then nothing is
    /// appended.
    #[inline]
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Self::Publish(publish) => publish.encode(version, out),
            Self::PubAck(ack) => ack.encode(Kind::PubAck, version, out),
            Self::PubRec(ack) => ack.encode(Kind::PubRec, version, out),
            Self::PubRel(ack) => ack.encode(Kind::PubRel, version, out),
            Self::PubComp(ack) => ack.encode(Kind::PubComp, version, out),
            Self::Connect(connect) => connect.encode(out),
            Self::ConnAck(ack) => ack.encode(version, out),
            Self::Subscribe(subscribe) => subscribe.encode(version, out),
            Self::SubAck(ack) => ack.encode(version, out),
            Self::Unsubscribe(unsubscribe) => unsubscribe.encode(version, out),
            Self::UnsubAck(ack) => ack.encode(version, out),
            Self::PingReq => framed(out, Kind::PingReq, |_| Ok(())),
            Self::PingResp => framed(out, Kind::PingResp, |_| Ok(())),
            Self::Disconnect(disconnect) => disconnect.encode(version, out),
            Self::Auth(auth) => auth.encode(version, out),
        }
    }

    /// Like [`encode`](Self::encode), for a receiver with a maximum packet size of `max_len` bytes. If the packet
    /// is longer, its reason string and user properties are omitted. A PUBLISH is never changed.
    ///
    /// # Errors
    /// Like [`encode`](Self::encode), and [`Reason::PACKET_TOO_LARGE`] if the packet is too long even so; then
    /// nothing is appended.
    pub fn encode_within(
        &self,
        version: Version,
        max_len: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let start = out.len();
        self.encode(version, out)?;
        if out.len() - start <= max_len {
            return Ok(());
        }
        out.truncate(start);
        if let Some(properties) = self.properties_with_text() {
            self.with_properties(properties.without_text().get()).encode(version, out)?;
            if out.len() - start <= max_len {
                return Ok(());
            }
            out.truncate(start);
        }
        Err(Error::new(
            Reason::PACKET_TOO_LARGE,
            "the packet exceeds the receiver's maximum packet size",
        ))
    }

    /// The properties of a packet that may have a reason string.
    fn properties_with_text(&self) -> Option<Properties<'a>> {
        match self {
            Self::ConnAck(ConnAck { properties, .. })
            | Self::PubAck(Ack { properties, .. })
            | Self::PubRec(Ack { properties, .. })
            | Self::PubRel(Ack { properties, .. })
            | Self::PubComp(Ack { properties, .. })
            | Self::SubAck(SubAck { properties, .. })
            | Self::UnsubAck(UnsubAck { properties, .. })
            | Self::Disconnect(Disconnect { properties, .. })
            | Self::Auth(Auth { properties, .. }) => Some(*properties),
            _ => None,
        }
    }

    /// The packet with these properties, if it may have a reason string.
    fn with_properties<'p>(&self, properties: Properties<'p>) -> Packet<'p>
    where
        'a: 'p,
    {
        match *self {
            Self::ConnAck(packet) => Packet::ConnAck(ConnAck { properties, ..packet }),
            Self::PubAck(packet) => Packet::PubAck(Ack { properties, ..packet }),
            Self::PubRec(packet) => Packet::PubRec(Ack { properties, ..packet }),
            Self::PubRel(packet) => Packet::PubRel(Ack { properties, ..packet }),
            Self::PubComp(packet) => Packet::PubComp(Ack { properties, ..packet }),
            Self::SubAck(packet) => Packet::SubAck(SubAck { properties, ..packet }),
            Self::UnsubAck(packet) => Packet::UnsubAck(UnsubAck { properties, ..packet }),
            Self::Disconnect(packet) => Packet::Disconnect(Disconnect { properties, ..packet }),
            Self::Auth(packet) => Packet::Auth(Auth { properties, ..packet }),
            other => other,
        }
    }
}

impl Version {
    /// Decodes properties, if this version has any.
    #[inline]
    pub(crate) fn properties<'a>(
        self,
        reader: &mut Reader<'a>,
        context: PropertyContext,
    ) -> Result<Properties<'a>, Error> {
        match self {
            Self::V3 => Ok(Properties::NONE),
            Self::V5 => Properties::read(reader, context),
        }
    }

    #[inline]
    pub(crate) fn put_properties(self, out: &mut Vec<u8>, properties: Properties<'_>) {
        if self == Self::V5 {
            properties.write(out);
        }
    }
}

impl Reader<'_> {
    /// Decodes a packet identifier.
    #[inline]
    pub(crate) fn id(&mut self) -> Result<PacketId, Error> {
        PacketId::new(self.u16()?).ok_or(Error::protocol("a packet identifier is 0"))
    }

    /// Checks that no bytes are left.
    #[inline]
    pub(crate) fn end(&self) -> Result<(), Error> {
        match self.is_empty() {
            true => Ok(()),
            false => Err(Error::malformed("the packet has bytes after its last field")),
        }
    }
}
