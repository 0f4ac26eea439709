//! Reads and writes packets, for clients that use blocking I/O.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZero;
use std::time::Duration;

use phalanx_mqtt::{
    Connect, Frame, Packet, Properties, Property, PropertyBuffer, QoS, Reason, Subscribe,
    SubscribeOptions, SubscriptionBuffer, Version,
};

/// Keep-alive interval in seconds, longer than any measurement. rumqttd rejects clients without one.
const KEEP_ALIVE: u16 = u16::MAX;
/// Session expiry interval of persistent sessions, in seconds.
const SESSION_EXPIRY: u32 = 3600;

/// A client to connect.
#[derive(Clone, Copy)]
pub(crate) struct Login<'a> {
    pub(crate) name: &'a str,
    /// Whether an earlier session of the client ends.
    pub(crate) is_clean: bool,
    /// Whether the session outlives the connection.
    pub(crate) is_kept: bool,
    /// Timeout for each response.
    pub(crate) timeout: Duration,
}

impl Login<'_> {
    /// Connects. Returns the connection, the packets that follow, and whether the server had a session of the client.
    pub(crate) fn connect(
        self,
        server: SocketAddr,
        most: usize,
    ) -> io::Result<(TcpStream, Packets, bool)> {
        let mut properties = PropertyBuffer::new();
        if self.is_kept {
            properties.push(Property::SessionExpiry(SESSION_EXPIRY)).map_err(io::Error::other)?;
        }
        let stream = TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(self.timeout))?;
        let connect = Connect {
            version: Version::V5,
            client_id: self.name,
            clean_start: self.is_clean,
            keep_alive: KEEP_ALIVE,
            username: None,
            password: None,
            will: None,
            properties: properties.get(),
        };
        send(&stream, &Packet::Connect(connect))?;
        // Messages may follow immediately.
        let mut packets = Packets::new(most);
        let is_present = packets.next(&stream, |packet| match packet {
            Packet::ConnAck(ack) => accepted(ack.reason).map(|()| ack.session_present),
            other => Err(unexpected(other)),
        })?;
        Ok((stream, packets, is_present))
    }
}

/// Sends a SUBSCRIBE.
pub(crate) fn subscribe(
    stream: &TcpStream,
    filters: &[impl AsRef<str>],
    qos: QoS,
) -> io::Result<()> {
    let mut wanted = SubscriptionBuffer::new();
    let options = SubscribeOptions { qos, ..SubscribeOptions::default() };
    for filter in filters {
        wanted.push(filter.as_ref(), options).map_err(io::Error::other)?;
    }
    let (id, properties) = (NonZero::<u16>::MIN, Properties::NONE);
    let subscribe = Subscribe { id, filters: wanted.to_subscribe(), properties };
    send(stream, &Packet::Subscribe(subscribe))
}

/// An error with the reason if a broker rejects a client.
pub(crate) fn accepted(reason: Reason) -> io::Result<()> {
    match reason.is_failure() {
        true => Err(invalid(format!("the broker rejected a client: {reason}"))),
        false => Ok(()),
    }
}

/// Packets that have arrived on a connection.
pub(crate) struct Packets {
    /// Maximum size of a packet, in bytes.
    most: usize,
    bytes: Vec<u8>,
    /// The length of the consumed packets at the front of `bytes`.
    taken: usize,
}

impl Packets {
    /// Accepts packets of at most `most` bytes. A longer one is an error.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, bytes: Vec::new(), taken: 0 }
    }

    /// Waits for the next packet, and passes it to `take`. The timeout of the stream is an error of the kind `TimedOut`.
    pub(crate) fn next<T>(
        &mut self,
        mut stream: &TcpStream,
        take: impl FnOnce(&Packet<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            let rest = &self.bytes[self.taken..];
            if let Some(frame) = Frame::split(rest, self.most).map_err(io::Error::other)? {
                self.taken += frame.length();
                return take(&Packet::decode(frame, Version::V5).map_err(io::Error::other)?);
            }
            self.bytes.drain(..std::mem::take(&mut self.taken));
            let mut chunk = [0; 16 * 1024];
            match stream.read(&mut chunk) {
                Ok(0) => return Err(invalid("the broker closed a connection")),
                Ok(count) => self.bytes.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Err(io::Error::new(ErrorKind::TimedOut, "the broker does not answer"));
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Appends a packet to `out`.
pub(crate) fn encode(packet: &Packet<'_>, out: &mut Vec<u8>) -> io::Result<()> {
    packet.encode(Version::V5, out).map_err(io::Error::other)
}

pub(crate) fn send(mut stream: &TcpStream, packet: &Packet<'_>) -> io::Result<()> {
    let mut out = Vec::new();
    encode(packet, &mut out)?;
    stream.write_all(&out)
}

/// The error for a broker that violates the protocol or rejects a client.
pub(crate) fn invalid(reason: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, reason.into())
}

/// The error for a packet that the client does not expect.
pub(crate) fn unexpected(packet: &Packet<'_>) -> io::Error {
    invalid(format!("unexpected packet: {packet:?}"))
}
