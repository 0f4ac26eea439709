//! A connection of the load: a synchronous setup, then non-blocking transfers.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::num::NonZero;
use std::time::Duration;

use phalanx_mqtt::{
    Connect, Disconnect, Frame, Packet, Properties, Property, PropertyBuffer, QoS, Reason,
    Subscribe, SubscribeOptions, SubscriptionBuffer, Version,
};

use super::packets::{Packets, encode, invalid, send, unexpected};

/// Timeout of each answer during the setup.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
const BUFFER_SIZE: usize = 256 * 1024;
/// Keep-alive interval in seconds, longer than any measurement. rumqttd rejects clients without one.
const KEEP_ALIVE: u16 = u16::MAX;
/// Session expiry interval of persistent sessions, in seconds.
const SESSION_EXPIRY: u32 = 3600;

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
        filters: impl Iterator<Item = String>,
        qos: QoS,
        kept: bool,
    ) -> io::Result<Self> {
        let mut properties = PropertyBuffer::new();
        if kept {
            properties.push(Property::SessionExpiry(SESSION_EXPIRY)).map_err(io::Error::other)?;
        }
        let stream = TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        let connect = Packet::Connect(Connect {
            version: Version::V5,
            client_id: name,
            clean_start: true,
            keep_alive: KEEP_ALIVE,
            username: None,
            password: None,
            will: None,
            properties: properties.get(),
        });
        ask(&stream, &connect, |packet| match packet {
            Packet::ConnAck(ack) => Some(ack.reason),
            _ => None,
        })?;
        let mut filters = filters.peekable();
        while filters.peek().is_some() {
            let mut wanted = SubscriptionBuffer::new();
            let options = SubscribeOptions { qos, ..SubscribeOptions::default() };
            for filter in filters.by_ref().take(FILTERS_PER_SUBSCRIBE) {
                wanted.push(&filter, options).map_err(io::Error::other)?;
            }
            let (id, properties) = (NonZero::<u16>::MIN, Properties::NONE);
            let subscribe = Subscribe { id, filters: wanted.to_subscribe(), properties };
            ask(&stream, &Packet::Subscribe(subscribe), |packet| match packet {
                Packet::SubAck(ack) => ack.reasons.iter().map(|reason| Reason(*reason)).max(),
                _ => None,
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

/// Topic filters per SUBSCRIBE.
const FILTERS_PER_SUBSCRIBE: usize = 500;

/// Sends a packet and waits for the answer; `reason` extracts the reason code from the expected packet type.
fn ask(
    stream: &TcpStream,
    packet: &Packet<'_>,
    reason: impl Fn(&Packet<'_>) -> Option<Reason>,
) -> io::Result<()> {
    send(stream, packet)?;
    Packets::new(BUFFER_SIZE).next(stream, |packet| match reason(packet) {
        Some(reason) if !reason.is_failure() => Ok(()),
        Some(reason) => Err(invalid(format!("the broker rejected a client: {reason}"))),
        None => Err(unexpected(packet)),
    })
}
