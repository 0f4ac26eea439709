//! One property of a packet (MQTT 5 §2.2.2), and where it may stand.

use crate::error::Error;
use crate::frame::Kind;
use crate::wire::{
    MAX_VARIABLE, Reader, has_disallowed, put_bytes, put_u16, put_u32, put_variable,
};

/// One property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property<'a> {
    /// Whether the payload is text in UTF-8.
    PayloadIsText(bool),
    /// Seconds until the message is worth nothing.
    MessageExpiry(u32),
    /// What the payload is.
    ContentType(&'a str),
    /// Where an answer is to be published.
    ResponseTopic(&'a str),
    /// What an answer is to carry, so that it is known for one.
    CorrelationData(&'a [u8]),
    /// The number that a client knows a subscription by: 1 to 268,435,455.
    SubscriptionIdentifier(u32),
    /// Seconds that a session outlives its connection; `u32::MAX` is for ever.
    SessionExpiry(u32),
    /// The client identifier that the server has chosen.
    AssignedClientIdentifier(&'a str),
    /// Seconds of keep-alive that the server wants in place of the client's.
    ServerKeepAlive(u16),
    /// The name of an authentication in several steps.
    AuthenticationMethod(&'a str),
    /// One step of it.
    AuthenticationData(&'a [u8]),
    /// Whether a client wants reason strings and user properties with errors.
    RequestProblemInformation(bool),
    /// Seconds between a connection's loss and its will.
    WillDelay(u32),
    /// Whether a client wants response information.
    RequestResponseInformation(bool),
    /// What a client's response topics may begin with.
    ResponseInformation(&'a str),
    /// Another server to go to.
    ServerReference(&'a str),
    /// Why, in words, for people.
    ReasonString(&'a str),
    /// Messages of QoS 1 and 2 that may be on their way to the sender at once: not 0.
    ReceiveMaximum(u16),
    /// The highest alias of a topic that the sender takes; 0 for none.
    TopicAliasMaximum(u16),
    /// A number in place of a topic: not 0.
    TopicAlias(u16),
    /// The highest QoS that the server takes: 0 or 1.
    MaximumQos(u8),
    /// Whether the server retains messages.
    RetainAvailable(bool),
    /// A name and a value of the users' own.
    User(&'a str, &'a str),
    /// Bytes of the longest packet that the sender takes: not 0.
    MaximumPacketSize(u32),
    /// Whether subscriptions may have wildcards.
    WildcardAvailable(bool),
    /// Whether subscriptions may have identifiers.
    SubscriptionIdentifierAvailable(bool),
    /// Whether subscriptions may be shared.
    SharedAvailable(bool),
}

pub(crate) const USER: u8 = 0x26;
pub(crate) const SUBSCRIPTION_IDENTIFIER: u8 = 0x0b;

/// Where properties stand: the bit of a packet's kind, or that of a will.
#[derive(Clone, Copy)]
pub(crate) struct PropertyContext(pub(crate) u16);

impl PropertyContext {
    pub(crate) const WILL: Self = Self(1);

    pub(crate) const fn of(kind: Kind) -> Self {
        Self(1 << kind as u8)
    }

    /// The places in which a property may stand; none for a number that no property has.
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
    /// The number and the value at the front of `reader`.
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
            _ => return Err(Error::malformed("there is no property of this number")),
        };
        Ok((id, property))
    }

    /// Whether a text that a broker passes on has a disallowed Unicode code point.
    #[inline]
    pub(crate) fn has_disallowed(self) -> bool {
        match self {
            Self::User(name, value) => has_disallowed(name) || has_disallowed(value),
            Self::ContentType(text) | Self::ResponseTopic(text) => has_disallowed(text),
            _ => false,
        }
    }

    /// Appends both.
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
        _ => Err(Error::protocol("a property that is 0 or 1 is neither")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_no_property_has_are_refused() {
        let known: Vec<u8> = (0..=255).filter(|id| PropertyContext::allowed(*id) != 0).collect();
        assert_eq!(known.len(), 27);
        for id in (0..=255).filter(|id| !known.contains(id)) {
            let bytes = [id, 0, 0, 0, 0];
            assert!(Property::read(&mut Reader(&bytes)).is_err(), "{id:#x}");
        }
    }
}
