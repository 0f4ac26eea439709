//! CONNECT and SUBSCRIBE at the remote broker.

use std::time::Duration;

use phalanx::net::IoTimeout;
use phalanx::time::now;
use phalanx_mqtt::{
    ConnAck, Connect, Delivery, Frame, Kind, Packet, PacketId, Properties, Property,
    PropertyBuffer, Publish, QoS, Reason, RetainHandling, Subscribe, SubscribeOptions,
    SubscriptionBuffer, Version, Will,
};
use phalanx_tls::Wire;

use crate::config::{Bridge, Limits};
use crate::link::topics::TopicMap;

/// The packet identifier of SUBSCRIBE. The session numbers its messages from 1, so they do not conflict.
const SUBSCRIBE_ID: PacketId = PacketId::MAX;

/// Maximum size of packets buffered before SUBACK, in bytes. A broker may send any number of retained messages before
/// SUBACK. Beyond this limit the login ends: the messages are processed, and the link checks SUBACK later.
const MAX_BEFORE_SUBACK: usize = 256 << 10;

/// Limits and features that the remote broker grants a bridge.
pub(super) struct Grant {
    /// Whether the remote broker has resumed the bridge's session.
    pub(super) is_present: bool,
    /// Whether the remote broker keeps the session for the next connection.
    pub(super) keeps_session: bool,
    pub(super) receive_maximum: u16,
    /// Maximum packet size, in bytes.
    pub(super) max_packet: usize,
    pub(super) aliases: u16,
    /// The keep-alive in seconds; 0 for none.
    pub(super) keep_alive: u16,
    pub(super) retain_available: bool,
    /// Whether SUBACK has not arrived yet.
    pub(super) awaits_suback: bool,
    max_qos: QoS,
    /// Packets that were already received.
    pub(super) rest: Vec<u8>,
}

/// A login at a remote broker.
pub(super) struct Login<'a> {
    pub(super) wire: &'a Wire,
    pub(super) bridge: &'a Bridge,
    pub(super) map: &'a TopicMap,
    pub(super) limits: &'a Limits,
    pub(super) password: Option<&'a str>,
    /// Maximum number of bytes by which packets from the remote broker grow.
    pub(super) growth: usize,
    /// Whether the remote broker discards the bridge's session.
    clean_start: bool,
    started: Duration,
    input: Vec<u8>,
}

impl<'a> Login<'a> {
    pub(super) fn new(
        wire: &'a Wire,
        (bridge, map): (&'a Bridge, &'a TopicMap),
        limits: &'a Limits,
        (password, growth, clean_start): (Option<&'a str>, usize, bool),
    ) -> Self {
        let (started, input) = (now(), Vec::new());
        Self { wire, bridge, map, limits, password, growth, clean_start, started, input }
    }

    /// Connects and subscribes.
    ///
    /// # Errors
    /// A description of the error.
    pub(super) async fn run(mut self) -> Result<Grant, String> {
        self.send(&self.connect()?).await?;
        let mut granted = self.connack().await?;
        if self.map.incoming().next().is_some() {
            let subscribe = self.subscribe(&granted)?;
            self.send(&subscribe).await?;
            granted.awaits_suback = !self.suback().await?;
        }
        if let Some(topic) = &self.bridge.notification_topic {
            let own = self.state(topic, "1", granted.retain_available);
            self.send(&encode(&Packet::Publish(own))?).await?;
        }
        granted.rest = self.input;
        Ok(granted)
    }

    fn connect(&self) -> Result<Vec<u8>, String> {
        let Bridge { client_id, username, keep_alive, .. } = self.bridge;
        let mut properties = PropertyBuffer::new();
        let packet_size = self.limits.packet_size.saturating_sub(self.growth);
        for property in [
            Property::SessionExpiry(self.bridge.session_expiry),
            Property::ReceiveMaximum(self.limits.receive_maximum),
            Property::MaximumPacketSize(u32::try_from(packet_size.max(128)).unwrap_or(u32::MAX)),
            Property::TopicAliasMaximum(self.limits.topic_alias),
        ] {
            properties.push(property).map_err(|error| error.to_string())?;
        }
        let will = self.bridge.notification_topic.as_deref().map(|topic| Will {
            topic,
            payload: b"0",
            qos: QoS::AtMostOnce,
            retain: true,
            properties: Properties::NONE,
        });
        encode(&Packet::Connect(Connect {
            version: Version::V5,
            client_id,
            clean_start: self.clean_start,
            keep_alive: *keep_alive,
            username: username.as_deref(),
            password: self.password.map(str::as_bytes),
            will,
            properties: properties.get(),
        }))
    }

    async fn connack(&mut self) -> Result<Grant, String> {
        let length = loop {
            if let Some(frame) = self.frame(0)? {
                break frame.length();
            }
            self.read().await?;
        };
        let frame = self.frame(0)?.ok_or("CONNACK is incomplete")?;
        let granted = match Packet::decode(frame, Version::V5).map_err(|error| error.to_string())? {
            Packet::ConnAck(ack) if ack.reason == Reason::SUCCESS => self.parse_grant(&ack)?,
            Packet::ConnAck(ack) => return Err(refusal_error(&ack)),
            _ => return Err("the remote broker did not answer CONNECT with CONNACK".into()),
        };
        self.input.drain(..length);
        Ok(granted)
    }

    fn parse_grant(&self, ack: &ConnAck<'_>) -> Result<Grant, String> {
        let Bridge { clean_start, session_expiry, .. } = self.bridge;
        let mut granted = Grant {
            is_present: ack.session_present,
            keeps_session: !clean_start && *session_expiry > 0,
            receive_maximum: u16::MAX,
            max_packet: Frame::MAX_PACKET,
            aliases: 0,
            keep_alive: self.bridge.keep_alive,
            retain_available: true,
            awaits_suback: false,
            max_qos: QoS::ExactlyOnce,
            rest: Vec::new(),
        };
        for property in ack.properties {
            match property {
                Property::SessionExpiry(seconds) => granted.keeps_session &= seconds > 0,
                Property::ReceiveMaximum(number) => granted.receive_maximum = number,
                Property::MaximumPacketSize(bytes) => granted.max_packet = bytes as usize,
                Property::TopicAliasMaximum(number) => granted.aliases = number,
                Property::ServerKeepAlive(seconds) => granted.keep_alive = seconds,
                Property::RetainAvailable(is) => granted.retain_available = is,
                Property::MaximumQos(qos) => {
                    granted.max_qos = QoS::from_u8(qos).map_err(|error| error.to_string())?;
                }
                _ => (),
            }
        }
        match self.map.outgoing().find(|(_, topic)| topic.qos > granted.max_qos) {
            None => Ok(granted),
            Some((_, own)) => Err(format!(
                "the remote broker accepts messages up to QoS {}; set `qos` of the topic {:?} to at most that",
                granted.max_qos as u8, own.local
            )),
        }
    }

    fn subscribe(&self, granted: &Grant) -> Result<Vec<u8>, String> {
        let mut filters = SubscriptionBuffer::default();
        for forwarded in self.map.incoming() {
            let options = SubscribeOptions {
                qos: forwarded.qos,
                no_local: self.bridge.no_local,
                retain_as_published: self.bridge.retain_as_published,
                // A resumed session already has the retained messages.
                retain_handling: RetainHandling::SendIfNew,
            };
            filters.push(&forwarded.remote, options).map_err(|error| error.to_string())?;
        }
        let filters = filters.to_subscribe();
        let subscribe = Subscribe { id: SUBSCRIBE_ID, filters, properties: Properties::NONE };
        let mut bytes = Vec::new();
        match Packet::Subscribe(subscribe).encode_within(
            Version::V5,
            granted.max_packet,
            &mut bytes,
        ) {
            Ok(()) => Ok(bytes),
            Err(error) => Err(format!("cannot subscribe to all topics at once: {error}")),
        }
    }

    /// Waits for SUBACK, unless too many packets precede it. Other packets stay in the input. Returns whether SUBACK has
    /// arrived.
    async fn suback(&mut self) -> Result<bool, String> {
        let mut at = 0;
        loop {
            while let Some(frame) = self.frame(at)? {
                let length = frame.length();
                if frame.kind() == Kind::SubAck {
                    let packet = Packet::decode(frame, Version::V5);
                    let Packet::SubAck(ack) = packet.map_err(|error| error.to_string())? else {
                        return Err("SUBACK is malformed".into());
                    };
                    self.map.check(&ack)?;
                    self.input.drain(at..at + length);
                    return Ok(true);
                }
                at += length;
            }
            if self.input.len() > MAX_BEFORE_SUBACK {
                return Ok(false);
            }
            self.read().await?;
        }
    }

    /// The message that shows the state of the bridge.
    fn state<'b>(&self, topic: &'b str, payload: &'static str, retain: bool) -> Publish<'b> {
        Publish {
            topic,
            payload: payload.as_bytes(),
            delivery: Delivery::AtMostOnce,
            retain,
            duplicate: false,
            properties: Properties::NONE,
        }
    }

    fn frame(&self, at: usize) -> Result<Option<Frame<'_>>, String> {
        let max_packet = self.limits.packet_size;
        Frame::split(&self.input[at..], max_packet).map_err(|error| error.to_string())
    }

    fn timeout(&self) -> IoTimeout {
        let left = self.limits.connect.saturating_sub(now() - self.started);
        IoTimeout::after(left).until_shutdown()
    }

    async fn send(&self, bytes: &[u8]) -> Result<(), String> {
        let written = self.wire.write(bytes.to_vec(), self.timeout()).await;
        written.map(drop).map_err(|error| error.to_string())
    }

    async fn read(&mut self) -> Result<(), String> {
        let timeout = self.timeout();
        match self.wire.read(&mut self.input, timeout).await {
            Ok(0) => Err("the remote broker closed the connection during the login".into()),
            Ok(_) => Ok(()),
            Err(error) => Err(format!("no answer of the remote broker: {error}")),
        }
    }
}

fn encode(packet: &Packet<'_>) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    packet.encode(Version::V5, &mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// The error of a refused CONNECT.
fn refusal_error(ack: &ConnAck<'_>) -> String {
    let text = ack.properties.iter().find_map(|property| match property {
        Property::ReasonString(text) => Some(format!(" ({text})")),
        _ => None,
    });
    format!("the remote broker refused the bridge: {}{}", ack.reason, text.unwrap_or_default())
}
