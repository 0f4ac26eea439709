//! Packets of clients that block.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

use phalanx_mqtt::{Frame, Packet, Version};

/// Packets that have arrived on a connection.
pub(crate) struct Packets {
    /// The longest packet, in bytes.
    most: usize,
    bytes: Vec<u8>,
    /// The length of the packets that were taken.
    taken: usize,
}

impl Packets {
    /// For packets of at most `most` bytes. A longer one is an error.
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

/// Sends a packet.
pub(crate) fn send(mut stream: &TcpStream, packet: &Packet<'_>) -> io::Result<()> {
    let mut out = Vec::new();
    encode(packet, &mut out)?;
    stream.write_all(&out)
}

/// The error of a broker that violates the protocol or rejects a client.
pub(crate) fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why.into())
}

/// The error of a packet that the client does not wait for.
pub(crate) fn unexpected(packet: &Packet<'_>) -> io::Error {
    invalid(format!("unexpected packet: {packet:?}"))
}
