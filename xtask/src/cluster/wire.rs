//! A blocking connection to a broker.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZero;
use std::time::{Duration, Instant};

use phalanx_mqtt::{
    Connect, Frame, Packet, PacketId, Properties, Property, PropertyBuffer, QoS, Reason, Subscribe,
    SubscribeOptions, SubscriptionBuffer, Version,
};

/// Timeout of CONNECT and of writes.
const LIMIT: Duration = Duration::from_secs(10);

/// A connection whose CONNECT was accepted.
pub(super) struct Wire {
    stream: TcpStream,
    input: Vec<u8>,
    /// Whether the broker had a session of the client.
    pub(super) is_present: bool,
}

/// A received packet.
pub(super) struct Received(Vec<u8>);

impl Received {
    pub(super) fn packet(&self) -> io::Result<Packet<'_>> {
        let frame = Frame::split(&self.0, Frame::MAX_BODY).map_err(invalid)?;
        let frame = frame.ok_or_else(|| io::Error::from(ErrorKind::UnexpectedEof))?;
        Packet::decode(frame, Version::V5).map_err(invalid)
    }
}

fn invalid(error: phalanx_mqtt::Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

/// The packet identifier of a number.
pub(super) fn id(number: u64) -> PacketId {
    NonZero::new((number % 65_535) as u16 + 1).unwrap_or(PacketId::MIN)
}

impl Wire {
    /// Connects. A client that `lasts` has a session that does not expire; another one begins a new session, which ends
    /// with the connection.
    pub(super) fn connect(address: SocketAddr, client: &str, lasts: bool) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, LIMIT)?;
        stream.set_write_timeout(Some(LIMIT))?;
        stream.set_nodelay(true)?;
        let mut wire = Self { stream, input: Vec::new(), is_present: false };
        let mut properties = PropertyBuffer::new();
        if lasts {
            properties.push(Property::SessionExpiry(u32::MAX)).map_err(invalid)?;
        }
        wire.send(&Packet::Connect(Connect {
            version: Version::V5,
            client_id: client,
            clean_start: !lasts,
            keep_alive: 0,
            username: None,
            password: None,
            will: None,
            properties: properties.get(),
        }))?;
        let received = wire.next(LIMIT)?.ok_or_else(|| io::Error::from(ErrorKind::TimedOut))?;
        match received.packet()? {
            Packet::ConnAck(ack) if ack.reason == Reason::SUCCESS => {
                wire.is_present = ack.session_present;
                Ok(wire)
            }
            other => Err(io::Error::other(format!("not connected: {other:?}"))),
        }
    }

    pub(super) fn send(&mut self, packet: &Packet<'_>) -> io::Result<()> {
        let mut bytes = Vec::new();
        packet.encode(Version::V5, &mut bytes).map_err(invalid)?;
        self.stream.write_all(&bytes)
    }

    /// Sends SUBSCRIBE.
    pub(super) fn subscribe(&mut self, filter: &str, qos: QoS) -> io::Result<()> {
        let options = SubscribeOptions { qos, ..SubscribeOptions::default() };
        let mut filters = SubscriptionBuffer::new();
        filters.push(filter, options).map_err(invalid)?;
        self.send(&Packet::Subscribe(Subscribe {
            id: PacketId::MIN,
            filters: filters.to_subscribe(),
            properties: Properties::NONE,
        }))
    }

    /// The next packet; `None` if there is none for some time.
    pub(super) fn next(&mut self, wait: Duration) -> io::Result<Option<Received>> {
        let deadline = Instant::now() + wait;
        loop {
            if let Some(frame) = Frame::split(&self.input, Frame::MAX_BODY).map_err(invalid)? {
                let bytes = self.input.drain(..frame.length()).collect();
                return Ok(Some(Received(bytes)));
            }
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return Ok(None);
            }
            self.stream.set_read_timeout(Some(remaining))?;
            let mut bytes = [0; 16 * 1024];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.input.extend_from_slice(&bytes[..count]),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => return Ok(None),
                    ErrorKind::Interrupted => (),
                    _ => return Err(error),
                },
            }
        }
    }
}
