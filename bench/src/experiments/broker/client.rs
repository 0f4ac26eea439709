//! A connection of the load: a synchronous setup, then non-blocking transfers.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use phalanx_mqtt::{Disconnect, Frame, Packet, Property, PropertyBuffer, QoS, Reason};

use super::packets::{Login, accepted, encode, invalid, subscribe, unexpected};

/// Timeout of each answer during the setup.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
const BUFFER_SIZE: usize = 256 * 1024;
/// Topic filters per SUBSCRIBE.
const FILTERS_PER_SUBSCRIBE: usize = 500;

/// A connected client.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    input: Vec<u8>,
    /// Number of received bytes that were not consumed.
    filled: usize,
    /// Bytes to send, and how many of them were sent.
    pub(super) out: Vec<u8>,
    sent: usize,
}

impl Client {
    /// Connects with a client id and subscribes to the filters with the QoS, many filters per packet. The session
    /// is persistent if requested.
    pub(crate) fn start(
        server: SocketAddr,
        name: &str,
        mut filters: impl Iterator<Item = String>,
        qos: QoS,
        kept: bool,
    ) -> io::Result<Self> {
        let login = Login { name, is_clean: true, is_kept: kept, timeout: READ_TIMEOUT };
        let (stream, mut packets, _) = login.connect(server, BUFFER_SIZE)?;
        loop {
            let some: Vec<String> = filters.by_ref().take(FILTERS_PER_SUBSCRIBE).collect();
            if some.is_empty() {
                break;
            }
            subscribe(&stream, &some, qos)?;
            packets.next(&stream, |packet| match packet {
                Packet::SubAck(ack) if ack.reasons.len() == some.len() => {
                    ack.reasons.iter().try_for_each(|reason| accepted(Reason(*reason)))
                }
                other => Err(unexpected(other)),
            })?;
        }
        stream.set_nonblocking(true)?;
        Ok(Self { stream, input: vec![0; BUFFER_SIZE], filled: 0, out: Vec::new(), sent: 0 })
    }

    /// Reads all available packets and passes the bytes of each to `take`.
    pub(super) fn receive(&mut self, mut take: impl FnMut(&[u8], &mut Vec<u8>)) -> io::Result<()> {
        loop {
            let room = self.input.len() - self.filled;
            let count = match self.stream.read(&mut self.input[self.filled..]) {
                Ok(0) => return Err(invalid("the broker closed a connection")),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            self.filled += count;
            let mut at = 0;
            let input = &self.input[..self.filled];
            while let Some(frame) =
                Frame::split(&input[at..], BUFFER_SIZE).map_err(io::Error::other)?
            {
                take(&input[at..at + frame.length()], &mut self.out);
                at += frame.length();
            }
            self.input.copy_within(at..self.filled, 0);
            self.filled -= at;
            // The socket is drained; poll reports further input.
            if count < room {
                return Ok(());
            }
        }
    }

    /// Sends as much as the socket accepts.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    /// Ends the session. Otherwise the broker would queue matching messages for it while other brokers are
    /// measured.
    pub(crate) fn leave(mut self) -> io::Result<()> {
        let mut properties = PropertyBuffer::new();
        properties.push(Property::SessionExpiry(0)).map_err(io::Error::other)?;
        let leaving = Disconnect { reason: Reason::SUCCESS, properties: properties.get() };
        encode(&Packet::Disconnect(leaving), &mut self.out)?;
        self.stream.set_nonblocking(false)?;
        self.flush()?;
        self.stream.shutdown(Shutdown::Write)?;
        while self.stream.read(&mut self.input)? > 0 {}
        Ok(())
    }
}
