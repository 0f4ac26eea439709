//! A client's connection in the simulated network, which sends and receives packets.

use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::task::Poll;
use std::time::Duration;

use phalanx::select;
use phalanx::sim::{Client, Net};
use phalanx::task::Either;
use phalanx_mqtt::{Connect, Frame, Packet, Property, PropertyBuffer, Reason, Version, Will};

/// The addresses of brokers, if there are several.
pub(crate) const NODES: [SocketAddr; 3] = [node(1), node(2), node(3)];

const fn node(number: u8) -> SocketAddr {
    SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, number), 1883))
}

/// The nodes in circular order, beginning with each one.
const ROTATIONS: [[SocketAddr; 3]; 3] =
    [NODES, [NODES[1], NODES[2], NODES[0]], [NODES[2], NODES[0], NODES[1]]];

/// The broker's address.
pub(crate) fn address() -> SocketAddr {
    NODES[0]
}

/// The brokers to which a client may connect: a single one, or the nodes of a cluster that keeps sessions. A session
/// begins at the first broker.
#[derive(Clone, Copy)]
pub(crate) struct Brokers {
    addresses: &'static [SocketAddr],
    /// Whether brokers may restart during the test.
    restart: bool,
    /// Whether the client connects to any broker, taking its session along.
    roam: bool,
}

impl Default for Brokers {
    fn default() -> Self {
        Self::one(0)
    }
}

impl Brokers {
    /// All nodes.
    pub(crate) const NODES: Self = Self { addresses: &NODES, restart: false, roam: false };

    /// All nodes. A session begins at the node with this number.
    pub(crate) fn from(number: usize) -> Self {
        Self { addresses: &ROTATIONS[number], ..Self::NODES }
    }

    /// The node with this number.
    pub(crate) fn one(number: usize) -> Self {
        Self { addresses: &NODES[number..=number], ..Self::NODES }
    }

    /// The same brokers, which may restart during the test.
    pub(crate) fn restarting(self) -> Self {
        Self { restart: true, ..self }
    }

    /// The same brokers, for a client that connects to any of them and takes its session along.
    pub(crate) fn roaming(self) -> Self {
        Self { roam: true, ..self }
    }

    /// Maximum number of times that a client's connection breaks.
    pub(crate) fn breaks(self) -> u32 {
        if self.roam { 12 } else { 4 }
    }

    /// Draws whether the next connection breaks. Those of roaming clients usually do.
    pub(crate) fn break_next(self, net: &Net) -> bool {
        if self.roam { net.draw(8) > 0 } else { net.draw(2) == 0 }
    }

    /// The broker at which a session begins.
    pub(crate) fn first(self) -> SocketAddr {
        self.addresses[0]
    }

    /// Whether the session may be at another broker.
    fn has_several(self) -> bool {
        self.addresses.len() > 1
    }

    /// Connects to the broker at which a session begins, or, if it `has_begun`, to the first broker that accepts the
    /// client.
    pub(crate) async fn connect(self, net: &Net, name: &str, has_begun: bool) -> Wire {
        if !has_begun || !self.has_several() {
            return Wire::connect_at(net, name, self.first()).await;
        }
        let mut has_tried_others = false;
        loop {
            let begin = if self.roam { net.draw(self.addresses.len() as u64) as usize } else { 0 };
            let (last, first) = self.addresses.split_at(begin);
            for broker in first.iter().chain(last) {
                if let Ok(wire) = Wire::try_connect(net, name, *broker, self).await {
                    return Wire { has_tried_others, ..wire };
                }
                has_tried_others = true;
            }
            // An adoption takes about a minute, so wait before trying again.
            net.sleep(Duration::from_millis(net.draw(4000))).await;
        }
    }

    /// Whether a broker may refuse or disconnect a client for this reason. A broker may restart. If there are several, it
    /// may have lost its lease, or the session may be elsewhere.
    pub(crate) fn may_refuse(self, reason: Reason) -> bool {
        self.restart && reason == Reason::SERVER_SHUTTING_DOWN
            || self.has_several()
                && [Reason::SERVER_UNAVAILABLE, Reason::SERVER_BUSY, Reason::USE_ANOTHER_SERVER]
                    .contains(&reason)
            // Taken over by an earlier CONNECT of this client, whose connection was lost before the answer.
            || self.roam && reason == Reason::SESSION_TAKEN_OVER
    }
}

/// A connection that resumes the client's session.
pub(crate) struct Wire {
    client: Client,
    input: Vec<u8>,
    /// The session-present flag.
    pub(crate) is_present: bool,
    /// Whether the client first sent CONNECT to a node that did not accept it. This node may have requested the session,
    /// and the request may arrive late.
    has_tried_others: bool,
}

/// The connection is lost.
pub(crate) struct Lost;

impl From<io::Error> for Lost {
    fn from(_: io::Error) -> Self {
        Self
    }
}

/// A packet received.
pub(crate) struct ReceivedPacket(Vec<u8>);

impl ReceivedPacket {
    pub(crate) fn packet(&self) -> Packet<'_> {
        let frame = Frame::split(&self.0, Frame::MAX_PACKET).expect("decoded before").unwrap();
        Packet::decode(frame, Version::V5).expect("the broker speaks MQTT")
    }
}

/// The options of a CONNECT.
#[derive(Clone, Copy, Default)]
pub(crate) struct ConnectOptions<'a> {
    pub(crate) name: &'a str,
    /// The session expiry interval in seconds.
    pub(crate) expiry: u32,
    pub(crate) clean_start: bool,
    pub(crate) will: Option<Will<'a>>,
}

/// Waits until the condition is true.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    poll_fn(|_| if condition() { Poll::Ready(()) } else { Poll::Pending }).await;
}

impl Wire {
    /// Connects, with as many attempts as necessary.
    pub(crate) async fn connect(net: &Net, name: &str) -> Self {
        Self::connect_at(net, name, address()).await
    }

    /// Like [`connect`](Self::connect), to the broker at this address.
    pub(crate) async fn connect_at(net: &Net, name: &str, broker: SocketAddr) -> Self {
        loop {
            if let Ok(wire) = Self::try_connect(net, name, broker, Brokers::default()).await {
                return wire;
            }
            net.sleep(Duration::from_millis(net.draw(50))).await;
        }
    }

    /// Connects once, to one of these brokers.
    async fn try_connect(
        net: &Net,
        name: &str,
        broker: SocketAddr,
        brokers: Brokers,
    ) -> Result<Self, Lost> {
        let options = ConnectOptions { name, expiry: u32::MAX, ..ConnectOptions::default() };
        match Self::open_at(net, options, broker).await? {
            (wire, Reason::SUCCESS) => Ok(wire),
            // The broker's disk is slow.
            (_, Reason::SERVER_UNAVAILABLE) => Err(Lost),
            (_, reason) if brokers.may_refuse(reason) => Err(Lost),
            (_, reason) => panic!("the CONNECT is refused: {reason:?}"),
        }
    }

    /// Connects once, with a session expiry interval in seconds. Returns the CONNACK's reason too.
    pub(crate) async fn open_with_expiry(
        net: &Net,
        name: &str,
        expiry: u32,
    ) -> Result<(Self, Reason), Lost> {
        Self::open(net, ConnectOptions { name, expiry, ..ConnectOptions::default() }).await
    }

    /// Like [`open_with_expiry`](Self::open_with_expiry), with all options.
    pub(crate) async fn open(
        net: &Net,
        options: ConnectOptions<'_>,
    ) -> Result<(Self, Reason), Lost> {
        Self::open_at(net, options, address()).await
    }

    /// Like [`open`](Self::open), to the broker at this address.
    pub(crate) async fn open_at(
        net: &Net,
        options: ConnectOptions<'_>,
        broker: SocketAddr,
    ) -> Result<(Self, Reason), Lost> {
        let client = net.connect(broker).await?;
        let mut wire =
            Self { client, input: Vec::new(), is_present: false, has_tried_others: false };
        let mut properties = PropertyBuffer::new();
        properties.push(Property::SessionExpiry(options.expiry)).unwrap();
        properties.push(Property::ReceiveMaximum(1 + net.draw(4) as u16)).unwrap();
        wire.send(&Packet::Connect(Connect {
            version: Version::V5,
            client_id: options.name,
            clean_start: options.clean_start,
            keep_alive: 0,
            username: None,
            password: None,
            will: options.will,
            properties: properties.get(),
        }))
        .await?;
        let received = wire.next().await?;
        let Packet::ConnAck(ack) = received.packet() else {
            panic!("the first packet is a CONNACK")
        };
        wire.is_present = ack.session_present;
        Ok((wire, ack.reason))
    }

    pub(crate) async fn send(&mut self, packet: &Packet<'_>) -> Result<(), Lost> {
        self.send_all(std::slice::from_ref(packet)).await
    }

    /// Sends packets with one write.
    pub(crate) async fn send_all(&mut self, packets: &[Packet<'_>]) -> Result<(), Lost> {
        let mut bytes = Vec::new();
        for packet in packets {
            packet.encode(Version::V5, &mut bytes).expect("it is short");
        }
        Ok(self.client.write_all(&bytes).await?)
    }

    /// Whether one of these brokers may disconnect the client for this reason.
    pub(crate) fn may_end(&self, brokers: Brokers, reason: Reason) -> bool {
        brokers.may_refuse(reason) || self.has_tried_others && reason == Reason::SESSION_TAKEN_OVER
    }

    /// The next packet.
    pub(crate) async fn next(&mut self) -> Result<ReceivedPacket, Lost> {
        loop {
            if let Some(frame) = Frame::split(&self.input, Frame::MAX_PACKET).expect("a packet") {
                let length = frame.length();
                return Ok(ReceivedPacket(self.input.drain(..length).collect()));
            }
            if self.client.read(&mut self.input).await? == 0 {
                return Err(Lost);
            }
        }
    }

    /// Counts packets until none arrives for this time. `check` asserts that each is expected.
    pub(crate) async fn count(
        &mut self,
        net: &Net,
        time: Duration,
        check: impl Fn(&Packet<'_>),
    ) -> usize {
        let mut count = 0;
        while let Either::Left(received) = select(Box::pin(self.next()), net.sleep(time)).await {
            let Ok(received) = received else { panic!("the connection is lost") };
            check(&received.packet());
            count += 1;
        }
        count
    }

    /// Waits for the broker to close the connection. Returns whether it closed cleanly, without another packet.
    pub(crate) async fn wait_for_close(&mut self) -> bool {
        loop {
            match self.client.read(&mut self.input).await {
                Ok(0) => return self.input.is_empty(),
                Ok(_) => (),
                Err(_) => return false,
            }
        }
    }

    /// Resets the connection.
    pub(crate) fn reset(self) {
        self.client.reset();
    }
}
