//! A property (MQTT 5 §2.2.2), and the packets that may contain it.

use crate::error::Error;
use crate::frame::Kind;
use crate::wire::{
    MAX_VARIABLE, Reader, has_disallowed, put_bytes, put_u16, put_u32, put_variable,
};

/// A property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property<'a> {
    /// Payload format indicator: whether the payload is UTF-8.
    PayloadIsText(bool),
    /// Message expiry interval in seconds.
    MessageExpiry(u32),
    /// Content type of the payload.
    ContentType(&'a str),
    /// Topic for a response.
    ResponseTopic(&'a str),
    /// Correlation data for a response.
    CorrelationData(&'a [u8]),
    /// Subscription identifier: 1 to 268,435,455.
    SubscriptionIdentifier(u32),
    /// Session expiry interval in seconds; `u32::MAX` for never.
    SessionExpiry(u32),
    /// The client identifier chosen by the server.
    AssignedClientIdentifier(&'a str),
    /// The keep-alive in seconds that the server assigns.
    ServerKeepAlive(u16),
    /// The method of an extended authentication.
    AuthenticationMethod(&'a str),
    /// Data of an extended authentication.
    AuthenticationData(&'a [u8]),
    /// Whether the client requests reason strings and user properties in case of errors.
    RequestProblemInformation(bool),
    /// Seconds between the loss of a connection and the publication of the will.
    WillDelay(u32),
    /// Whether the client requests response information.
    RequestResponseInformation(bool),
    /// Prefix for the client's response topics.
    ResponseInformation(&'a str),
    /// Another server to use.
    ServerReference(&'a str),
    /// A human-readable reason.
    ReasonString(&'a str),
    /// Maximum number of QoS 1 and 2 messages in flight to the sender; not 0.
    ReceiveMaximum(u16),
    /// Maximum topic alias that the sender accepts; 0 for none.
    TopicAliasMaximum(u16),
    /// Topic alias; not 0.
    TopicAlias(u16),
    /// Maximum QoS that the server supports: 0 or 1.
    MaximumQos(u8),
    /// Whether the server supports retained messages.
    RetainAvailable(bool),
    /// A user property: name and value.
    User(&'a str, &'a str),
    /// Maximum packet size in bytes that the sender accepts; not 0.
    MaximumPacketSize(u32),
    /// Whether the server supports wildcard subscriptions.
    WildcardAvailable(bool),
    /// Whether the server supports subscription identifiers.
    SubscriptionIdentifierAvailable(bool),
    /// Whether the server supports shared subscriptions.
    SharedAvailable(bool),
}

pub(crate) const USER: u8 = 0x26;
pub(crate) const SUBSCRIPTION_IDENTIFIER: u8 = 0x0b;

/// The context of properties: the bit of a packet's kind, or of a will.
#[derive(Clone, Copy)]
pub(crate) struct PropertyContext(pub(crate) u16);

impl PropertyContext {
    pub(crate) const WILL: Self = Self(1);

    pub(crate) const fn for_packet(kind: Kind) -> Self {
        Self(1 << kind as u8)
    }

    /// The contexts in which a property is allowed; 0 for an unknown property.
    pub(crate) const fn allowed(id: u8) -> u16 {
        const fn at<const N: usize>(kinds: [Kind; N]) -> u16 {
            let (mut bits, mut n) = (0, 0);
            while n < N {
                bits |= 1 << kinds[n] as u8;
                n += 1;
            }
            bits
        }
        match id {
            0x01 | 0x02 | 0x03 | 0x08 | 0x09 => at([Kind::Publish]) | Self::WILL.0,
            0x0b => at([Kind::Publish, Kind::Subscribe]),
            0x11 => at([Kind::Connect, Kind::ConnAck, Kind::Disconnect]),
            0x12 | 0x13 | 0x1a | 0x24 | 0x25 | 0x28 | 0x29 | 0x2a => at([Kind::ConnAck]),
            0x15 | 0x16 => at([Kind::Connect, Kind::ConnAck, Kind::Auth]),
            0x17 | 0x19 => at([Kind::Connect]),
            0x18 => Self::WILL.0,
            0x1c => at([Kind::ConnAck, Kind::Disconnect]),
            0x1f => {
                at([Kind::ConnAck, Kind::PubAck, Kind::PubRec, Kind::PubRel, Kind::PubComp])
                    | at([Kind::SubAck, Kind::UnsubAck, Kind::Disconnect, Kind::Auth])
            }
            0x21 | 0x22 | 0x27 => at([Kind::Connect, Kind::ConnAck]),
            0x23 => at([Kind::Publish]),
            0x26 => !at([Kind::PingReq, Kind::PingResp]),
            _ => 0,
        }
    }
}

impl<'a> Property<'a> {
    /// Decodes the number and value at the start of `reader`.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<(u8, Self), Error> {
        let id = reader.byte()?;
        let property = match id {
            USER => Self::User(reader.text()?, reader.text()?),
            0x01 => Self::PayloadIsText(flag(reader)?),
            0x02 => Self::MessageExpiry(reader.u32()?),
            0x03 => Self::ContentType(reader.text()?),
            0x08 => Self::ResponseTopic(reader.text()?),
            0x09 => Self::CorrelationData(reader.bytes()?),
            SUBSCRIPTION_IDENTIFIER => match reader.variable()? {
                0 => return Err(Error::protocol("a subscription identifier is 0")),
                number => Self::SubscriptionIdentifier(number as u32),
            },
            0x11 => Self::SessionExpiry(reader.u32()?),
            0x12 => Self::AssignedClientIdentifier(reader.text()?),
            0x13 => Self::ServerKeepAlive(reader.u16()?),
            0x15 => Self::AuthenticationMethod(reader.text()?),
            0x16 => Self::AuthenticationData(reader.bytes()?),
            0x17 => Self::RequestProblemInformation(flag(reader)?),
            0x18 => Self::WillDelay(reader.u32()?),
            0x19 => Self::RequestResponseInformation(flag(reader)?),
            0x1a => Self::ResponseInformation(reader.text()?),
            0x1c => Self::ServerReference(reader.text()?),
            0x1f => Self::ReasonString(reader.text()?),
            0x21 => match reader.u16()? {
                0 => return Err(Error::protocol("the receive maximum is 0")),
                most => Self::ReceiveMaximum(most),
            },
            0x22 => Self::TopicAliasMaximum(reader.u16()?),
            0x23 => Self::TopicAlias(reader.u16()?),
            0x24 => match reader.byte()? {
                qos @ (0 | 1) => Self::MaximumQos(qos),
                _ => return Err(Error::protocol("the maximum QoS is neither 0 nor 1")),
            },
            0x25 => Self::RetainAvailable(flag(reader)?),
            0x27 => match reader.u32()? {
                0 => return Err(Error::protocol("the maximum packet size is 0")),
                most => Self::MaximumPacketSize(most),
            },
            0x28 => Self::WildcardAvailable(flag(reader)?),
            0x29 => Self::SubscriptionIdentifierAvailable(flag(reader)?),
            0x2a => Self::SharedAvailable(flag(reader)?),
            _ => return Err(Error::malformed("unknown property")),
        };
        Ok((id, property))
    }

    /// Whether a string that brokers forward contains a disallowed Unicode code point.
    #[inline]
    pub(crate) fn has_disallowed(self) -> bool {
        match self {
            Self::User(name, value) => has_disallowed(name) || has_disallowed(value),
            Self::ContentType(text) | Self::ResponseTopic(text) => has_disallowed(text),
            _ => false,
        }
    }

    /// Encodes the number and value.
    pub(crate) fn write(self, out: &mut Vec<u8>) -> Result<(), Error> {
        let flag = |out: &mut Vec<u8>, id, value: bool| out.extend([id, value.into()]);
        let two = |out: &mut Vec<u8>, id, value| {
            out.push(id);
            put_u16(out, value);
        };
        let four = |out: &mut Vec<u8>, id, value| {
            out.push(id);
            put_u32(out, value);
        };
        let bytes = |out: &mut Vec<u8>, id, value| {
            out.push(id);
            put_bytes(out, value)
        };
        match self {
            Self::PayloadIsText(value) => flag(out, 0x01, value),
            Self::MessageExpiry(value) => four(out, 0x02, value),
            Self::ContentType(value) => bytes(out, 0x03, value.as_bytes())?,
            Self::ResponseTopic(value) => bytes(out, 0x08, value.as_bytes())?,
            Self::CorrelationData(value) => bytes(out, 0x09, value)?,
            Self::SubscriptionIdentifier(value) => {
                if value == 0 || value as usize > MAX_VARIABLE {
                    return Err(Error::protocol("a subscription identifier is out of range"));
                }
                out.push(SUBSCRIPTION_IDENTIFIER);
                put_variable(out, value as usize);
            }
            Self::SessionExpiry(value) => four(out, 0x11, value),
            Self::AssignedClientIdentifier(value) => bytes(out, 0x12, value.as_bytes())?,
            Self::ServerKeepAlive(value) => two(out, 0x13, value),
            Self::AuthenticationMethod(value) => bytes(out, 0x15, value.as_bytes())?,
            Self::AuthenticationData(value) => bytes(out, 0x16, value)?,
            Self::RequestProblemInformation(value) => flag(out, 0x17, value),
            Self::WillDelay(value) => four(out, 0x18, value),
            Self::RequestResponseInformation(value) => flag(out, 0x19, value),
            Self::ResponseInformation(value) => bytes(out, 0x1a, value.as_bytes())?,
            Self::ServerReference(value) => bytes(out, 0x1c, value.as_bytes())?,
            Self::ReasonString(value) => bytes(out, 0x1f, value.as_bytes())?,
            Self::ReceiveMaximum(value) => two(out, 0x21, value),
            Self::TopicAliasMaximum(value) => two(out, 0x22, value),
            Self::TopicAlias(value) => two(out, 0x23, value),
            Self::MaximumQos(value) => out.extend([0x24, value]),
            Self::RetainAvailable(value) => flag(out, 0x25, value),
            Self::User(name, value) => {
                bytes(out, USER, name.as_bytes())?;
                put_bytes(out, value.as_bytes())?;
            }
            Self::MaximumPacketSize(value) => four(out, 0x27, value),
            Self::WildcardAvailable(value) => flag(out, 0x28, value),
            Self::SubscriptionIdentifierAvailable(value) => flag(out, 0x29, value),
            Self::SharedAvailable(value) => flag(out, 0x2a, value),
        }
        Ok(())
    }
}

fn flag(reader: &mut Reader<'_>) -> Result<bool, Error> {
    match reader.byte()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Error::protocol("a boolean property is neither 0 nor 1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_property_identifiers_are_refused() {
        let known: Vec<u8> = (0..=255).filter(|id| PropertyContext::allowed(*id) != 0).collect();
        assert_eq!(known.len(), 27);
        for id in (0..=255).filter(|id| !known.contains(id)) {
            let bytes = [id, 0, 0, 0, 0];
            assert!(Property::read(&mut Reader(&bytes)).is_err(), "{id:#x}");
        }
    }
}
