//! Clients that block: they connect, subscribe, publish with a window and read back.

use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZero;
use std::time::Duration;

use phalanx_mqtt::{Delivery, Kind, Packet, Properties, Publish, QoS};

use crate::error::Error;
use crate::experiments::broker::packets::{Login, Packets, encode, subscribe, unexpected};
use crate::system::interrupted;

/// Messages in flight, so that a broker stores many with one write.
pub(crate) const WINDOW: usize = 500;
/// Timeout of each answer.
const READ_TIMEOUT: Duration = Duration::from_secs(120);
/// Time without a message after which none is expected.
const QUIET: Duration = Duration::from_secs(2);
const MAX_PACKET_BYTES: usize = 1 << 20;

/// Minimum number of messages between two lines on stderr.
const PROGRESS: usize = 1000;

/// A connected client.
pub(crate) struct Client {
    stream: TcpStream,
    packets: Packets,
    /// Messages received so far.
    received: usize,
    /// Whether the server had its session.
    pub(crate) is_resumed: bool,
}

/// A session of a client that is kept for an hour, or as long as the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lasts {
    Connection,
    Hour,
}

impl Client {
    /// Connects, without a keep-alive interval that would end during the measurement.
    pub(crate) fn connect(server: SocketAddr, name: &str, lasts: Lasts) -> io::Result<Self> {
        Self::connect_within(READ_TIMEOUT, server, name, lasts)
    }

    /// Like [`connect`](Self::connect), with another timeout of each answer.
    pub(crate) fn connect_within(
        timeout: Duration,
        server: SocketAddr,
        name: &str,
        lasts: Lasts,
    ) -> io::Result<Self> {
        let is_kept = lasts == Lasts::Hour;
        let login = Login { name, is_clean: !is_kept, is_kept, timeout };
        let (stream, packets, is_resumed) = login.connect(server, MAX_PACKET_BYTES)?;
        Ok(Self { stream, packets, received: 0, is_resumed })
    }

    /// Subscribes with QoS 1. Messages may precede the acknowledgement.
    pub(crate) fn subscribe(&mut self, filter: &str) -> io::Result<()> {
        subscribe(&self.stream, &[filter], QoS::AtLeastOnce)?;
        while !self.take()? {}
        Ok(())
    }

    /// Receives a packet. Acknowledges a message; returns true for a successful SUBACK.
    fn take(&mut self) -> io::Result<bool> {
        let id = self.packets.next(&self.stream, |packet| match packet {
            Packet::Publish(publish) => Ok(Some(publish.delivery.id())),
            Packet::SubAck(ack) if ack.reasons.iter().all(|reason| *reason < 0x80) => Ok(None),
            other => Err(unexpected(other)),
        })?;
        let Some(id) = id else { return Ok(true) };
        self.received += 1;
        if let Some(id) = id {
            let [high, low] = id.get().to_be_bytes();
            self.stream.write_all(&[(Kind::PubAck as u8) << 4, 2, high, low])?;
        }
        Ok(false)
    }

    /// Publishes QoS 1 messages, at most `window` of them in flight, and waits for their acknowledgements.
    pub(crate) fn publish(
        &mut self,
        (count, window): (usize, usize),
        topic: impl Fn(usize) -> String,
        (payload, retain): (usize, bool),
    ) -> Result<(), Error> {
        let (payload, mut out, mut sent) = (vec![b'.'; payload], Vec::new(), 0);
        for acknowledged in 0..count {
            // Half a window at once.
            if sent - acknowledged <= window / 2 {
                interrupted()?;
                out.clear();
                for n in sent..count.min(acknowledged + window) {
                    let id = NonZero::new((n % window) as u16 + 1).expect("at least 1");
                    let (delivery, topic) = (Delivery::AtLeastOnce(id), topic(n));
                    let (topic, payload, properties) = (&*topic, &*payload, Properties::NONE);
                    let publish =
                        Publish { topic, payload, delivery, retain, duplicate: false, properties };
                    encode(&Packet::Publish(publish), &mut out)?;
                }
                sent = count.min(acknowledged + window);
                self.stream.write_all(&out)?;
            }
            self.packets.next(&self.stream, |packet| match packet {
                Packet::PubAck(ack) if !ack.reason.is_failure() => Ok(()),
                other => Err(unexpected(other)),
            })?;
            if (acknowledged + 1).is_multiple_of(count.div_ceil(10).max(PROGRESS)) {
                eprintln!("  {} of {count} messages", acknowledged + 1);
            }
        }
        Ok(())
    }

    /// Receives until `most` messages have come, or none comes for a while. Returns their number.
    pub(crate) fn receive(&mut self, most: usize) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(QUIET))?;
        while self.received < most {
            match self.take() {
                Err(error) if error.kind() == ErrorKind::TimedOut => break,
                result => drop(result?),
            }
        }
        Ok(self.received)
    }
}
