//! `phalanx pub`: publishes a message, a file, or each line of its input.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use phalanx_mqtt::{
    Ack, Delivery, Frame, Packet, PacketId, Property, PropertyBuffer, Publish, QoS, Reason,
    Version, topic,
};

use super::To;
use super::connect::{Accepted, Limit, connect};
use super::connection::{Connection, Event, ReceivedPacket};
use super::failure::{Failure, reason_text};
use crate::units::seconds;

/// Publish messages to an MQTT broker
///
/// Exits when the broker has received all messages. Exit codes: 0 on success; 1 when the broker is unreachable or
/// rejects a message; 2 for bad arguments; 3 on a timeout; 130 after Ctrl-C.
#[derive(Args)]
pub(crate) struct Pub {
    /// Topic to publish to.
    #[arg(long, short)]
    topic: String,

    #[command(flatten)]
    source: MessageSource,

    /// QoS: 0 at most once, 1 at least once, 2 exactly once.
    #[arg(long, short, default_value = "0", value_parser = super::qos)]
    qos: QoS,

    /// Retain the message for later subscribers. An empty message deletes the retained one.
    #[arg(long, short)]
    retain: bool,

    /// User property, for content filters; may be given several times. (MQTT 5)
    #[arg(long = "user-property", short = 'U', value_name = "NAME=VALUE", value_parser = user_property)]
    user_properties: Vec<(String, String)>,

    /// Message expiry interval. (MQTT 5)
    #[arg(long, value_name = "time", value_parser = expiry)]
    expiry: Option<u32>,

    /// Timeout for answers of the broker.
    #[arg(long, value_name = "time", default_value = "30s", value_parser = super::timeout)]
    timeout: Duration,

    #[command(flatten)]
    to: To,
}

/// The message.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct MessageSource {
    /// Text of the message
    #[arg(long, short, value_name = "TEXT")]
    message: Option<String>,

    /// File with the message; - reads standard input to its end
    #[arg(long, short, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Publish each line of standard input as a message, as soon as it is read
    #[arg(long, short = 'l')]
    stdin_lines: bool,
}

fn expiry(text: &str) -> Result<u32, String> {
    seconds(text, 0..=u32::MAX)
}

fn user_property(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE, as in location=roomA".into()),
    }
}

impl Pub {
    pub(crate) fn run(self) -> ExitCode {
        match self.publish() {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => failure.report("pub"),
        }
    }

    fn publish(&self) -> Result<(), Failure> {
        if !topic::is_name(&self.topic) {
            let reason =
                "is not a topic name: it is empty, too long, or contains a wildcard (+ or #)";
            return Err(Failure::Usage(format!("{:?} {reason}", self.topic)));
        }
        let mut source = self.source.open()?;
        let timeout = self.timeout;
        let limit = Limit { answer: timeout, deadline: None };
        let Accepted { connection, receive_maximum } = connect(&self.to, limit)?;
        let mut properties = PropertyBuffer::new();
        let user = self.user_properties.iter().map(|(name, value)| Property::User(name, value));
        for property in user.chain(self.expiry.map(Property::MessageExpiry)) {
            let result = properties.push(property);
            result.map_err(|error| Failure::Usage(error.message().to_owned()))?;
        }
        if connection.version == Version::V3 && !properties.get().is_empty() {
            let reason =
                "user properties and expiry require MQTT 5, but the connection uses MQTT 3.1.1";
            return Err(Failure::Usage(reason.into()));
        }
        let in_flight = Vec::new();
        let max_inflight = receive_maximum.min(MAX_INFLIGHT);
        let mut publisher =
            Publisher { options: self, connection, properties, in_flight, next: 0, max_inflight };
        publisher.send(&mut source, timeout)?;
        publisher.connection.disconnect()
    }
}

/// Maximum number of QoS 1 and 2 messages in flight.
const MAX_INFLIGHT: usize = 256;

/// State of the transfer.
struct Publisher<'a> {
    options: &'a Pub,
    connection: Connection,
    properties: PropertyBuffer,
    in_flight: Vec<PacketId>,
    next: u16,
    max_inflight: usize,
}

impl Publisher<'_> {
    /// Sends all messages and waits for their acknowledgements.
    fn send(&mut self, source: &mut Source, timeout: Duration) -> Result<(), Failure> {
        loop {
            let mut has_room = self.has_room();
            while has_room && let Some(payload) = source.next() {
                self.publish(&payload)?;
                has_room = self.has_room();
            }
            let is_done = self.in_flight.is_empty() && self.connection.is_flushed();
            if source.is_ended() && is_done {
                return Ok(());
            }
            let stdin = io::stdin();
            let input = (has_room && !source.is_ended()).then(|| stdin.as_fd());
            // Every answer and any progress of the transfer restart the timeout. Waiting for input has no timeout.
            let deadline = (!is_done).then(|| Instant::now() + timeout);
            match self.connection.next(deadline, input)? {
                Event::Packet(received) => self.handle_ack(&received)?,
                Event::Input => source.read()?,
                Event::Sent => (),
                Event::Timeout => {
                    let reason = match self.in_flight.len() {
                        0 => "the broker does not read; the last messages may be lost".to_owned(),
                        missing => {
                            format!("the broker does not answer; {missing} messages may be lost")
                        }
                    };
                    return Err(Failure::Timeout(reason));
                }
            }
        }
    }

    fn has_room(&self) -> bool {
        self.in_flight.len() < self.max_inflight && self.connection.is_flushed()
    }

    fn publish(&mut self, payload: &[u8]) -> Result<(), Failure> {
        let delivery = match self.options.qos {
            QoS::AtMostOnce => Delivery::AtMostOnce,
            QoS::AtLeastOnce => Delivery::AtLeastOnce(self.id()),
            QoS::ExactlyOnce => Delivery::ExactlyOnce(self.id()),
        };
        self.connection.send(&Packet::Publish(Publish {
            topic: &self.options.topic,
            payload,
            delivery,
            retain: self.options.retain,
            duplicate: false,
            properties: self.properties.get(),
        }))
    }

    /// An unused packet identifier.
    fn id(&mut self) -> PacketId {
        loop {
            self.next = self.next.wrapping_add(1);
            if let Some(id) = PacketId::new(self.next)
                && !self.in_flight.contains(&id)
            {
                self.in_flight.push(id);
                return id;
            }
        }
    }

    fn handle_ack(&mut self, received: &ReceivedPacket) -> Result<(), Failure> {
        let acknowledged = match received.packet()? {
            Packet::PubAck(ack) | Packet::PubRec(ack) if ack.reason.is_failure() => {
                let reason = reason_text(ack.reason, ack.properties);
                return Err(Failure::Broker(format!("the broker rejected the message: {reason}")));
            }
            Packet::PubRec(ack) => {
                return self.connection.send(&Packet::PubRel(Ack::success(ack.id)));
            }
            Packet::PubAck(ack) => ack.id,
            Packet::PubComp(Ack { id, reason: Reason::SUCCESS, .. }) => id,
            Packet::PubComp(ack) => {
                let reason = reason_text(ack.reason, ack.properties);
                return Err(Failure::Broker(format!(
                    "the message may have arrived twice: {reason}"
                )));
            }
            _ => return Ok(()),
        };
        self.in_flight.retain(|id| *id != acknowledged);
        Ok(())
    }
}

/// Source of the messages.
enum Source {
    /// A single message, until it was taken.
    Once(Option<Vec<u8>>),
    /// Lines: the bytes read, how many of them contain no end of a line, and whether the input has ended.
    Lines { buffer: Vec<u8>, searched: usize, is_ended: bool },
}

impl MessageSource {
    fn open(&self) -> Result<Source, Failure> {
        // One byte more than fits a packet, which is then rejected.
        let read_bounded = |source: &mut dyn Read| {
            let mut bytes = Vec::new();
            source.take(Frame::MAX_PACKET as u64 + 1).read_to_end(&mut bytes).map(|_| bytes)
        };
        let read_file = |path: &PathBuf| match path.as_os_str() == "-" {
            true => read_bounded(&mut io::stdin()),
            false => read_bounded(&mut File::open(path)?),
        };
        Ok(match (&self.message, &self.file) {
            (Some(text), _) => Source::Once(Some(text.clone().into_bytes())),
            (None, Some(path)) => Source::Once(Some(
                read_file(path)
                    .map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?,
            )),
            (None, None) => Source::Lines { buffer: Vec::new(), searched: 0, is_ended: false },
        })
    }
}

impl Source {
    /// The next available message.
    fn next(&mut self) -> Option<Vec<u8>> {
        match self {
            Self::Once(message) => message.take(),
            Self::Lines { buffer, searched, is_ended } => {
                let end = buffer[*searched..].iter().position(|byte| *byte == b'\n');
                let Some(end) = end.map(|end| *searched + end) else {
                    *searched = buffer.len();
                    // The last line may lack a newline.
                    let rest = *is_ended && !buffer.is_empty();
                    return rest.then(|| {
                        *searched = 0;
                        std::mem::take(buffer)
                    });
                };
                *searched = 0;
                let mut line: Vec<u8> = buffer.drain(..=end).collect();
                line.pop();
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                Some(line)
            }
        }
    }

    /// Whether there are no further messages.
    fn is_ended(&self) -> bool {
        match self {
            Self::Once(message) => message.is_none(),
            Self::Lines { buffer, is_ended, .. } => *is_ended && buffer.is_empty(),
        }
    }

    /// Reads the available input.
    fn read(&mut self) -> Result<(), Failure> {
        let mut chunk = [0; 16 * 1024];
        match rustix::io::read(io::stdin(), &mut chunk) {
            Ok(count) => self.take(&chunk[..count]),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => Ok(()),
            Err(error) => Err(Failure::from_io("cannot read the input", &error.into())),
        }
    }

    /// Adds input that follows the start of a line; none at the end of the input.
    fn take(&mut self, input: &[u8]) -> Result<(), Failure> {
        let Self::Lines { buffer, is_ended, .. } = self else { return Ok(()) };
        if buffer.len() > Frame::MAX_PACKET {
            let max = Frame::MAX_PACKET;
            let reason = format!("a line is longer than the largest MQTT packet ({max} bytes)");
            return Err(Failure::Usage(reason));
        }
        buffer.extend_from_slice(input);
        *is_ended = input.is_empty();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_messages() {
        let buffer = b"one\r\n\nlast".to_vec();
        let mut source = Source::Lines { buffer, searched: 0, is_ended: false };
        assert_eq!(source.next().as_deref(), Some(&b"one"[..]));
        assert_eq!(source.next().as_deref(), Some(&b""[..]));
        assert_eq!((source.next(), source.is_ended()), (None, false));
        let Source::Lines { buffer, is_ended, .. } = &mut source else { unreachable!() };
        buffer.extend(b" piece\nend");
        *is_ended = true;
        assert_eq!(source.next().as_deref(), Some(&b"last piece"[..]));
        assert_eq!(source.next().as_deref(), Some(&b"end"[..]));
        assert_eq!((source.next(), source.is_ended()), (None, true));
    }

    #[test]
    fn a_line_that_fits_no_packet_is_an_error() {
        let buffer = vec![0; Frame::MAX_PACKET + 1];
        let mut source = Source::Lines { searched: buffer.len(), buffer, is_ended: false };
        assert!(matches!(source.take(b"more"), Err(Failure::Usage(_))));
    }

    #[test]
    fn user_properties() {
        assert_eq!(user_property("k=a=b"), Ok(("k".into(), "a=b".into())));
        assert!(user_property("k").is_err() && user_property("=v").is_err());
    }
}
