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
    what: What,

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
struct What {
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
            let why = "is not a topic name: it is empty, too long, or contains a wildcard (+ or #)";
            return Err(Failure::Usage(format!("{:?} {why}", self.topic)));
        }
        let mut source = self.what.open()?;
        let timeout = self.timeout;
        let limit = Limit { answer: timeout, until: None };
        let Accepted { connection, receive_maximum } = connect(&self.to, limit)?;
        let mut properties = PropertyBuffer::new();
        let user = self.user_properties.iter().map(|(name, value)| Property::User(name, value));
        for property in user.chain(self.expiry.map(Property::MessageExpiry)) {
            let pushed = properties.push(property);
            pushed.map_err(|error| Failure::Usage(error.what().to_owned()))?;
        }
        if connection.version == Version::V3 && !properties.get().is_empty() {
            let why =
                "user properties and expiry require MQTT 5, but the connection uses MQTT 3.1.1";
            return Err(Failure::Usage(why.into()));
        }
        let in_flight = Vec::new();
        let most = receive_maximum.min(MAX_INFLIGHT);
        let mut sending = Sending { own: self, connection, properties, in_flight, next: 0, most };
        sending.send(&mut source, timeout)?;
        sending.connection.disconnect()
    }
}

/// Maximum number of QoS 1 and 2 messages in flight.
const MAX_INFLIGHT: usize = 256;

/// State of the transfer.
struct Sending<'a> {
    own: &'a Pub,
    connection: Connection,
    properties: PropertyBuffer,
    in_flight: Vec<PacketId>,
    next: u16,
    most: usize,
}

impl Sending<'_> {
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
            let until = (!is_done).then(|| Instant::now() + timeout);
            match self.connection.next(until, input)? {
                Event::Packet(received) => self.answered(&received)?,
                Event::Input => source.read()?,
                Event::Sent => (),
                Event::Timeout => {
                    let why = match self.in_flight.len() {
                        0 => "the broker does not read; the last messages may be lost".to_owned(),
                        missing => {
                            format!("the broker does not answer; {missing} messages may be lost")
                        }
                    };
                    return Err(Failure::Timeout(why));
                }
            }
        }
    }

    fn has_room(&self) -> bool {
        self.in_flight.len() < self.most && self.connection.is_flushed()
    }

    fn publish(&mut self, payload: &[u8]) -> Result<(), Failure> {
        let delivery = match self.own.qos {
            QoS::AtMostOnce => Delivery::AtMostOnce,
            QoS::AtLeastOnce => Delivery::AtLeastOnce(self.id()),
            QoS::ExactlyOnce => Delivery::ExactlyOnce(self.id()),
        };
        self.connection.send(&Packet::Publish(Publish {
            topic: &self.own.topic,
            payload,
            delivery,
            retain: self.own.retain,
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

    fn answered(&mut self, received: &ReceivedPacket) -> Result<(), Failure> {
        let done = match received.packet()? {
            Packet::PubAck(ack) | Packet::PubRec(ack) if ack.reason.is_failure() => {
                let why = reason_text(ack.reason, ack.properties);
                return Err(Failure::Broker(format!("the broker rejected the message: {why}")));
            }
            Packet::PubRec(ack) => return self.connection.send(&Packet::PubRel(Ack::of(ack.id))),
            Packet::PubAck(ack) => ack.id,
            Packet::PubComp(Ack { id, reason: Reason::SUCCESS, .. }) => id,
            Packet::PubComp(ack) => {
                let why = reason_text(ack.reason, ack.properties);
                return Err(Failure::Broker(format!("the message may have arrived twice: {why}")));
            }
            _ => return Ok(()),
        };
        self.in_flight.retain(|id| *id != done);
        Ok(())
    }
}

/// Source of the messages.
enum Source {
    /// A single message, until it was taken.
    Once(Option<Vec<u8>>),
    /// Lines: the bytes read, how many of them contain no end of a line, and whether the input has ended.
    Lines { read: Vec<u8>, searched: usize, ended: bool },
}

impl What {
    fn open(&self) -> Result<Source, Failure> {
        // One byte more than fits a packet, which is then rejected.
        let whole = |source: &mut dyn Read| {
            let mut bytes = Vec::new();
            source.take(Frame::MAX_PACKET as u64 + 1).read_to_end(&mut bytes).map(|_| bytes)
        };
        let of_file = |path: &PathBuf| match path.as_os_str() == "-" {
            true => whole(&mut io::stdin()),
            false => whole(&mut File::open(path)?),
        };
        Ok(match (&self.message, &self.file) {
            (Some(text), _) => Source::Once(Some(text.clone().into_bytes())),
            (None, Some(path)) => Source::Once(Some(
                of_file(path)
                    .map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?,
            )),
            (None, None) => Source::Lines { read: Vec::new(), searched: 0, ended: false },
        })
    }
}

impl Source {
    /// The next available message.
    fn next(&mut self) -> Option<Vec<u8>> {
        match self {
            Self::Once(message) => message.take(),
            Self::Lines { read, searched, ended } => {
                let end = read[*searched..].iter().position(|byte| *byte == b'\n');
                let Some(end) = end.map(|end| *searched + end) else {
                    *searched = read.len();
                    // The last line may lack a newline.
                    let rest = *ended && !read.is_empty();
                    return rest.then(|| {
                        *searched = 0;
                        std::mem::take(read)
                    });
                };
                *searched = 0;
                let mut line: Vec<u8> = read.drain(..=end).collect();
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
            Self::Lines { read, ended, .. } => *ended && read.is_empty(),
        }
    }

    /// Reads the available input.
    fn read(&mut self) -> Result<(), Failure> {
        let mut chunk = [0; 16 * 1024];
        match rustix::io::read(io::stdin(), &mut chunk) {
            Ok(count) => self.take(&chunk[..count]),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => Ok(()),
            Err(error) => Err(Failure::of_system("cannot read the input", &error.into())),
        }
    }

    /// Adds input that follows the start of a line; none at the end of the input.
    fn take(&mut self, input: &[u8]) -> Result<(), Failure> {
        let Self::Lines { read, ended, .. } = self else { return Ok(()) };
        if read.len() > Frame::MAX_PACKET {
            let most = Frame::MAX_PACKET;
            let why = format!("a line is longer than the largest MQTT packet ({most} bytes)");
            return Err(Failure::Usage(why));
        }
        read.extend_from_slice(input);
        *ended = input.is_empty();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_messages() {
        let read = b"one\r\n\nlast".to_vec();
        let mut source = Source::Lines { read, searched: 0, ended: false };
        assert_eq!(source.next().as_deref(), Some(&b"one"[..]));
        assert_eq!(source.next().as_deref(), Some(&b""[..]));
        assert_eq!((source.next(), source.is_ended()), (None, false));
        let Source::Lines { read, ended, .. } = &mut source else { unreachable!() };
        read.extend(b" piece\nend");
        *ended = true;
        assert_eq!(source.next().as_deref(), Some(&b"last piece"[..]));
        assert_eq!(source.next().as_deref(), Some(&b"end"[..]));
        assert_eq!((source.next(), source.is_ended()), (None, true));
    }

    #[test]
    fn a_line_that_fits_no_packet_is_an_error() {
        let read = vec![0; Frame::MAX_PACKET + 1];
        let mut source = Source::Lines { searched: read.len(), read, ended: false };
        assert!(matches!(source.take(b"more"), Err(Failure::Usage(_))));
    }

    #[test]
    fn user_properties() {
        assert_eq!(user_property("k=a=b"), Ok(("k".into(), "a=b".into())));
        assert!(user_property("k").is_err() && user_property("=v").is_err());
    }
}
