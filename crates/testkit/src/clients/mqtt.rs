//! An MQTT client that sends arbitrary packets at any time.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZero;

use phalanx_mqtt::{
    Ack, Connect, Delivery, Disconnect, Frame, Kind, Packet, PacketId, Properties, Property,
    PropertyBuffer, Publish, QoS, Reason, Subscribe, SubscribeOptions, SubscriptionBuffer,
    Unsubscribe, Version, Will,
};

use crate::clients::tcp;

/// A connection to a broker.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    input: Vec<u8>,
    /// The protocol version of later packets.
    pub version: Version,
}

/// A received packet.
#[derive(Debug)]
pub struct ReceivedPacket {
    bytes: Vec<u8>,
    version: Version,
}

impl ReceivedPacket {
    /// The packet.
    pub fn packet(&self) -> Packet<'_> {
        let frame = Frame::split(&self.bytes, Frame::MAX_PACKET).unwrap().unwrap();
        Packet::decode(frame, self.version).unwrap()
    }

    /// The packet as a PUBLISH; fails for others.
    pub fn message(&self) -> Publish<'_> {
        match self.packet() {
            Packet::Publish(publish) => publish,
            other => panic!("expected a message, got {other:?}"),
        }
    }
}

/// Subscription identifiers of a message, in order.
pub fn identifiers(message: &Publish<'_>) -> Vec<u32> {
    let number = |property| match property {
        Property::SubscriptionIdentifier(number) => Some(number),
        _ => None,
    };
    let mut identifiers: Vec<_> = message.properties.iter().filter_map(number).collect();
    identifiers.sort_unstable();
    identifiers
}

/// A packet identifier.
pub fn id(number: u16) -> PacketId {
    NonZero::new(number).expect("a number of a packet")
}

/// Parameters of a CONNECT.
#[derive(Debug)]
pub struct ConnectOptions<'a> {
    /// The protocol version.
    pub version: Version,
    /// The client identifier.
    pub id: &'a str,
    /// Whether to start without the stored session.
    pub clean: bool,
    /// The keep-alive interval in seconds; 0 for none.
    pub keep_alive: u16,
    /// Properties of the packet.
    pub properties: Vec<Property<'a>>,
    /// Topic, payload, QoS, retain flag and properties of the will.
    pub will: Option<(&'a str, &'a str, QoS, bool, Vec<Property<'a>>)>,
    /// User name and password.
    pub login: Option<(&'a str, &'a str)>,
}

impl<'a> ConnectOptions<'a> {
    /// A clean session without a keep-alive interval.
    pub fn new(version: Version, id: &'a str) -> Self {
        let properties = Vec::new();
        Self { version, id, clean: true, keep_alive: 0, properties, will: None, login: None }
    }

    /// MQTT 5 with a persistent session.
    pub fn persistent(id: &'a str) -> Self {
        let properties = vec![Property::SessionExpiry(u32::MAX)];
        Self { clean: false, properties, ..Self::new(Version::V5, id) }
    }
}

/// The bytes of a packet.
pub fn encode(packet: &Packet<'_>, version: Version) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.encode(version, &mut bytes).unwrap();
    bytes
}

fn buffer(properties: &[Property<'_>]) -> PropertyBuffer {
    let mut buffer = PropertyBuffer::new();
    properties.iter().for_each(|property| buffer.push(*property).unwrap());
    buffer
}

impl Client {
    /// A connection without a CONNECT.
    pub fn open(broker: impl Into<SocketAddr>, version: Version) -> Self {
        Self { stream: tcp::connect(broker.into()), input: Vec::new(), version }
    }

    /// A client with an accepted session; the flag is `session present`.
    pub fn connect_with(
        broker: impl Into<SocketAddr>,
        options: &ConnectOptions<'_>,
    ) -> (Self, bool) {
        let mut client = Self::open(broker, options.version);
        client.send_connect(options);
        match client.next().packet() {
            Packet::ConnAck(ack) => {
                assert_eq!(ack.reason, Reason::SUCCESS, "{ack:?}");
                (client, ack.session_present)
            }
            other => panic!("expected a CONNACK, got {other:?}"),
        }
    }

    /// Connects with the expectation of a rejection, and returns its reason.
    pub fn expect_rejection(broker: impl Into<SocketAddr>, options: &ConnectOptions<'_>) -> Reason {
        let mut client = Self::open(broker, options.version);
        client.send_connect(options);
        let received = client.next();
        let Packet::ConnAck(ack) = received.packet() else {
            panic!("expected a CONNACK, got {received:?}")
        };
        assert!(client.try_next().is_none(), "{:?}", ack.reason);
        ack.reason
    }

    /// An accepted MQTT 5 client.
    pub fn new(broker: impl Into<SocketAddr>, id: &str) -> Self {
        Self::connect_with(broker, &ConnectOptions::new(Version::V5, id)).0
    }

    /// Sends CONNECT.
    pub fn send_connect(&mut self, options: &ConnectOptions<'_>) {
        let properties = buffer(&options.properties);
        let will_properties = buffer(options.will.as_ref().map_or(&[], |will| &will.4));
        let will = options.will.as_ref().map(|(topic, payload, qos, retain, _)| Will {
            topic,
            payload: payload.as_bytes(),
            qos: *qos,
            retain: *retain,
            properties: will_properties.get(),
        });
        self.send(&Packet::Connect(Connect {
            version: options.version,
            client_id: options.id,
            clean_start: options.clean,
            keep_alive: options.keep_alive,
            username: options.login.map(|(name, _)| name),
            password: options.login.map(|(_, password)| password.as_bytes()),
            will,
            properties: properties.get(),
        }));
    }

    /// Whether bytes of a further packet were received.
    pub fn has_input(&self) -> bool {
        !self.input.is_empty()
    }

    /// The socket, for reading and writing bytes.
    pub fn into_stream(self) -> TcpStream {
        assert!(self.input.is_empty(), "unparsed bytes: {:?}", self.input);
        self.stream
    }

    /// Sends a packet.
    pub fn send(&mut self, packet: &Packet<'_>) {
        self.send_bytes(&encode(packet, self.version));
    }

    /// Sends bytes, which need not be a packet.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The next packet.
    #[expect(clippy::should_implement_trait, reason = "it panics at the end")]
    pub fn next(&mut self) -> ReceivedPacket {
        self.try_next().expect("another packet")
    }

    /// The next packet; `None` at the end of the connection.
    pub fn try_next(&mut self) -> Option<ReceivedPacket> {
        loop {
            if let Some(frame) = Frame::split(&self.input, Frame::MAX_PACKET).unwrap() {
                let bytes = self.input.drain(..frame.length()).collect();
                return Some(ReceivedPacket { bytes, version: self.version });
            }
            let mut bytes = [0; 65536];
            match tcp::read(&mut self.stream, &mut bytes) {
                Ok(0) => return None,
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Ok(count) => self.input.extend_from_slice(&bytes[..count]),
                Err(error) => panic!("no packet: {error}"),
            }
        }
    }

    /// All bytes up to the end of the connection.
    pub fn read_to_end(mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.input);
        match self.stream.read_to_end(&mut bytes) {
            Ok(_) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => bytes,
            Err(error) => panic!("the connection does not end: {error}"),
        }
    }

    /// The reason of a DISCONNECT by the broker; `None` if the connection ends without one.
    pub fn wait_for_close(&mut self) -> Option<Reason> {
        let mut reason = None;
        while let Some(received) = self.try_next() {
            assert!(reason.is_none(), "nothing comes behind the end: {:?}", received.packet());
            if let Packet::Disconnect(disconnect) = received.packet() {
                reason = Some(disconnect.reason);
            }
        }
        reason
    }

    /// Subscribes and returns the reason codes.
    pub fn subscribe_with(
        &mut self,
        filters: &[(&str, SubscribeOptions)],
        properties: &[Property<'_>],
    ) -> Vec<Reason> {
        self.send_subscribe_with(filters, properties);
        self.answer(Kind::SubAck)
    }

    /// Sends SUBSCRIBE.
    pub fn send_subscribe(&mut self, filters: &[(&str, SubscribeOptions)]) {
        self.send_subscribe_with(filters, &[]);
    }

    fn send_subscribe_with(
        &mut self,
        filters: &[(&str, SubscribeOptions)],
        properties: &[Property<'_>],
    ) {
        let mut subscriptions = SubscriptionBuffer::new();
        filters.iter().for_each(|(filter, options)| subscriptions.push(filter, *options).unwrap());
        let properties = buffer(properties);
        let (id, filters) = (id(0x5555), subscriptions.to_subscribe());
        self.send(&Packet::Subscribe(Subscribe { id, filters, properties: properties.get() }));
    }

    /// Subscribes with a QoS, which must be granted.
    pub fn subscribe(&mut self, filter: &str, qos: QoS) {
        let options = SubscribeOptions { qos, ..SubscribeOptions::default() };
        assert_eq!(self.subscribe_with(&[(filter, options)], &[]), [Reason(qos as u8)]);
    }

    /// Unsubscribes and returns the reason code.
    pub fn unsubscribe(&mut self, filter: &str) -> Vec<Reason> {
        self.unsubscribe_all(&[filter])
    }

    /// Unsubscribes from all filters with one packet.
    pub fn unsubscribe_all(&mut self, filters: &[impl AsRef<str>]) -> Vec<Reason> {
        self.send_unsubscribe(filters);
        self.answer(Kind::UnsubAck)
    }

    /// Sends UNSUBSCRIBE.
    pub fn send_unsubscribe(&mut self, filters: &[impl AsRef<str>]) {
        let mut subscriptions = SubscriptionBuffer::new();
        for filter in filters {
            subscriptions.push(filter.as_ref(), SubscribeOptions::default()).unwrap();
        }
        let (id, filters) = (id(0x5556), subscriptions.to_unsubscribe());
        let properties = Properties::NONE;
        self.send(&Packet::Unsubscribe(Unsubscribe { id, filters, properties }));
    }

    /// The reason codes of the next answer of this kind. Earlier messages are kept for later.
    pub fn answer(&mut self, kind: Kind) -> Vec<Reason> {
        let mut before = Vec::new();
        loop {
            let received = self.next();
            let reasons = match (received.packet(), kind) {
                (Packet::SubAck(ack), Kind::SubAck) => ack.reasons,
                (Packet::UnsubAck(ack), Kind::UnsubAck) => ack.reasons,
                (Packet::Publish(_), _) => {
                    before.extend_from_slice(&received.bytes);
                    continue;
                }
                (other, _) => panic!("expected {kind:?}, got {other:?}"),
            };
            let reasons = reasons.iter().map(|reason| Reason(*reason)).collect();
            self.input.splice(0..0, before);
            return reasons;
        }
    }

    /// Publishes without waiting for an answer.
    pub fn publish_with(
        &mut self,
        topic: &str,
        payload: &str,
        delivery: Delivery,
        retain: bool,
        properties: &[Property<'_>],
    ) {
        let properties = buffer(properties);
        self.send(&Packet::Publish(Publish {
            topic,
            payload: payload.as_bytes(),
            delivery,
            retain,
            duplicate: false,
            properties: properties.get(),
        }));
    }

    /// Publishes with QoS 1 and waits for the PUBACK: subscribers have received the message, or it is queued.
    pub fn publish(&mut self, topic: &str, payload: &str) -> Reason {
        self.publish_with(topic, payload, Delivery::AtLeastOnce(id(77)), false, &[]);
        self.expect_puback()
    }

    /// The same, retained.
    pub fn retain(&mut self, topic: &str, payload: &str) {
        self.publish_with(topic, payload, Delivery::AtLeastOnce(id(78)), true, &[]);
        assert!(!self.expect_puback().is_failure());
    }

    /// The reason of the PUBACK, which is the next packet.
    pub fn expect_puback(&mut self) -> Reason {
        match self.next().packet() {
            Packet::PubAck(ack) => ack.reason,
            other => panic!("expected a PUBACK, got {other:?}"),
        }
    }

    /// The next packet is this message; acknowledges it with QoS 1.
    pub fn expect_message(&mut self, topic: &str, payload: &str) {
        let received = self.next();
        let message = received.message();
        assert_eq!((message.topic, message.payload), (topic, payload.as_bytes()));
        self.acknowledge(&message);
    }

    /// Acknowledges a QoS 1 message.
    pub fn acknowledge(&mut self, message: &Publish<'_>) {
        if let Delivery::AtLeastOnce(id) = message.delivery {
            self.send(&Packet::PubAck(Ack::success(id)));
        }
    }

    /// No message is on the way to this client: its own test message arrives next.
    pub fn expect_no_message(&mut self) {
        let topic = "marker/of/nothing/else";
        self.subscribe(topic, QoS::AtMostOnce);
        self.publish_with(topic, "nothing else", Delivery::AtMostOnce, false, &[]);
        self.expect_message(topic, "nothing else");
        self.unsubscribe(topic);
    }

    /// Disconnects, and waits until the broker has noticed.
    pub fn disconnect(mut self) {
        self.send(&Packet::Disconnect(Disconnect::new(Reason::SUCCESS)));
        assert_eq!(self.wait_for_close(), None);
    }

    /// Closes the connection without DISCONNECT, and waits until the broker has noticed.
    pub fn drop_connection(mut self) {
        self.stream.shutdown(std::net::Shutdown::Write).unwrap();
        self.wait_for_close();
    }
}
