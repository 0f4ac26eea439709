//! CONNECT and CONNACK.

use super::publish::QoS;
use crate::error::Error;
use crate::frame::{Frame, Kind, framed};
use crate::properties::{Properties, PropertyContext};
use crate::reason::Reason;
use crate::topic;
use crate::version::Version;
use crate::wire::{Reader, put_bytes, put_u16, variable};

/// A CONNECT, the first packet of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect<'a> {
    /// The protocol version of the connection.
    pub version: Version,
    /// The client identifier; if it is empty, the server chooses one.
    pub client_id: &'a str,
    /// Whether to discard an existing session. (In 3.1.1, *clean session* also means that the session ends
    /// with the connection.)
    pub clean_start: bool,
    /// Maximum interval between packets of the client in seconds; 0 for none.
    pub keep_alive: u16,
    /// The user name.
    pub username: Option<&'a str>,
    /// The password.
    pub password: Option<&'a [u8]>,
    /// The will.
    pub will: Option<Will<'a>>,
    /// Empty in 3.1.1.
    pub properties: Properties<'a>,
}

/// A message that the server publishes when the client's connection is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Will<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The payload.
    pub payload: &'a [u8],
    /// The QoS.
    pub qos: QoS,
    /// Whether it is retained.
    pub retain: bool,
    /// The will delay and the message's properties; empty in 3.1.1.
    pub properties: Properties<'a>,
}

const CLEAN: u8 = 0x02;
const WILL: u8 = 0x04;
const WILL_RETAIN: u8 = 0x20;
const PASSWORD: u8 = 0x40;
const USERNAME: u8 = 0x80;

impl<'a> Connect<'a> {
    /// The version in which to answer a CONNECT that may be malformed, incomplete, too long or of an
    /// unsupported version. `input` begins with the packet. `None` if it is not a CONNECT of MQTT, or its
    /// protocol level is missing.
    ///
    /// Levels below 5 are versions 3.x, even with the high bit set, which marks mosquitto's bridges.
    ///
    /// ```
    /// use phalanx_mqtt::{Connect, Version};
    ///
    /// assert_eq!(Connect::response_version(b"\x10\x7f\x00\x04MQTT\x06"), Some(Version::V5));
    /// assert_eq!(Connect::response_version(b"\x10\x0c\x00\x06MQIsdp\x03"), Some(Version::V3));
    /// assert_eq!(Connect::response_version(b"GET / HTTP/1.1"), None);
    /// ```
    pub fn response_version(input: &[u8]) -> Option<Version> {
        let (first, rest) = input.split_first()?;
        let (_, size) = variable(rest).ok()??;
        let mut reader = Reader(&rest[size..]);
        let (name, level) = (reader.bytes().ok()?, reader.byte().ok()?);
        let is_mqtt = first >> 4 == Kind::Connect as u8 && matches!(name, b"MQTT" | b"MQIsdp");
        is_mqtt.then_some(match level & 0x7f {
            ..5 => Version::V3,
            _ => Version::V5,
        })
    }

    pub(crate) fn decode(frame: Frame<'a>) -> Result<Self, Error> {
        let mut reader = Reader(frame.body);
        let (name, level) = (reader.bytes()?, reader.byte()?);
        let version = match (name, level) {
            (b"MQTT", 4) => Version::V3,
            (b"MQTT", 5) => Version::V5,
            (b"MQTT" | b"MQIsdp", _) => {
                let message = "the protocol version is neither MQTT 5 nor 3.1.1";
                return Err(Error::new(Reason::UNSUPPORTED_PROTOCOL_VERSION, message));
            }
            _ => return Err(Error::malformed("the protocol is not MQTT")),
        };
        let flags = reader.byte()?;
        if flags & 1 != 0 {
            return Err(Error::malformed("a reserved flag of CONNECT is set"));
        }
        let keep_alive = reader.u16()?;
        let properties =
            version.properties(&mut reader, PropertyContext::for_packet(Kind::Connect))?;
        let client_id = reader.text()?;
        let qos = QoS::from_u8(flags >> 3 & 3)?;
        let retain = flags & WILL_RETAIN != 0;
        let will = if flags & WILL != 0 {
            let properties = version.properties(&mut reader, PropertyContext::WILL)?;
            let (topic, payload) = (reader.text()?, reader.bytes()?);
            topic::check_name(topic)?;
            Some(Will { topic, payload, qos, retain, properties })
        } else if qos != QoS::AtMostOnce || retain {
            return Err(Error::malformed("CONNECT has will flags without a will"));
        } else {
            None
        };
        let username = (flags & USERNAME != 0).then(|| reader.text()).transpose()?;
        let password = (flags & PASSWORD != 0).then(|| reader.bytes()).transpose()?;
        if version == Version::V3 && password.is_some() && username.is_none() {
            return Err(Error::malformed("a password without a user name"));
        }
        reader.end()?;
        let clean_start = flags & CLEAN != 0;
        Ok(Self {
            version,
            client_id,
            clean_start,
            keep_alive,
            username,
            password,
            will,
            properties,
        })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        if self.version == Version::V3 && self.password.is_some() && self.username.is_none() {
            return Err(Error::malformed("a password without a user name"));
        }
        framed(out, Kind::Connect, |out| {
            put_bytes(out, b"MQTT")?;
            out.push(match self.version {
                Version::V3 => 4,
                Version::V5 => 5,
            });
            let will = self.will.as_ref().map_or(0, |will| {
                WILL | (will.qos as u8) << 3 | if will.retain { WILL_RETAIN } else { 0 }
            });
            let set = |flag, is: bool| if is { flag } else { 0 };
            out.push(
                set(CLEAN, self.clean_start)
                    | will
                    | set(PASSWORD, self.password.is_some())
                    | set(USERNAME, self.username.is_some()),
            );
            put_u16(out, self.keep_alive);
            self.version.put_properties(out, self.properties);
            put_bytes(out, self.client_id.as_bytes())?;
            if let Some(will) = &self.will {
                topic::check_name(will.topic)?;
                self.version.put_properties(out, will.properties);
                put_bytes(out, will.topic.as_bytes())?;
                put_bytes(out, will.payload)?;
            }
            if let Some(username) = self.username {
                put_bytes(out, username.as_bytes())?;
            }
            if let Some(password) = self.password {
                put_bytes(out, password)?;
            }
            Ok(())
        })
    }
}

/// The response to a [`Connect`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnAck<'a> {
    /// Whether an existing session was resumed.
    pub session_present: bool,
    /// The result. In 3.1.1 it is encoded as the closest return code.
    pub reason: Reason,
    /// Empty in 3.1.1.
    pub properties: Properties<'a>,
}

impl<'a> ConnAck<'a> {
    pub(crate) fn decode(frame: Frame<'a>, version: Version) -> Result<Self, Error> {
        let mut reader = Reader(frame.body);
        let session_present = match reader.byte()? {
            0 => false,
            1 => true,
            _ => return Err(Error::malformed("reserved flags of CONNACK are set")),
        };
        let code = reader.byte()?;
        let reason = match version {
            Version::V5 => Reason(code),
            Version::V3 => {
                Reason::of_v3(code).ok_or(Error::malformed("CONNACK has an unknown return code"))?
            }
        };
        let properties =
            version.properties(&mut reader, PropertyContext::for_packet(Kind::ConnAck))?;
        reader.end()?;
        Ok(Self { session_present, reason, properties })
    }

    pub(crate) fn encode(&self, version: Version, out: &mut Vec<u8>) -> Result<(), Error> {
        framed(out, Kind::ConnAck, |out| {
            out.push(self.session_present.into());
            out.push(match version {
                Version::V3 => self.reason.to_v3(),
                Version::V5 => self.reason.0,
            });
            version.put_properties(out, self.properties);
            Ok(())
        })
    }
}
