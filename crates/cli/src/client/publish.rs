//! `phalanx pub`: publishes a message, a file, or line by line what is read.

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use phalanx_mqtt::{
    Ack, Delivery, Packet, PacketId, Property, PropertyBuffer, Publish, QoS, Reason, Version, topic,
};

use super::To;
use super::begin::{Granted, begin};
use super::failure::{Failure, words};
use super::link::{Came, Happened, Link};

/// Publish messages to an MQTT broker, any one
///
/// It ends when the broker has them all. Exit codes: 0 then; 1 when the broker cannot be reached or refuses, 2 for
/// bad arguments, 3 when the broker does not answer in time, 130 after Ctrl-C.
#[derive(Args)]
pub(crate) struct Pub {
    /// Where to publish.
    #[arg(long, short)]
    topic: String,

    #[command(flatten)]
    what: What,

    /// How surely: 0 sent once, 1 until it is answered, 2 exactly once.
    #[arg(long, short, default_value = "0", value_parser = super::qos)]
    qos: QoS,

    /// Keep it for those who subscribe later. An empty message takes the one that is kept away.
    #[arg(long, short)]
    retain: bool,

    /// A user property, which filters look at: k=v; may be given several times. (MQTT 5)
    #[arg(long = "user-property", short = 'U', value_name = "NAME=VALUE", value_parser = user_property)]
    user_properties: Vec<(String, String)>,

    /// Seconds after which it is worth nothing any more. (MQTT 5)
    #[arg(long, value_name = "SECONDS")]
    expiry: Option<u32>,

    /// Seconds that the broker is waited for when nothing moves.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,

    #[command(flatten)]
    to: To,
}

/// What is published.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct What {
    /// This text
    #[arg(long, short, value_name = "TEXT")]
    message: Option<String>,

    /// What is in this file; - for what is read from the input, to its end
    #[arg(long, short, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Each line of the input is a message, as soon as it is there
    #[arg(long, short = 'l')]
    stdin_lines: bool,
}

fn user_property(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("a name and a value: location=roomA".into()),
    }
}

impl Pub {
    pub(crate) fn run(self) -> ExitCode {
        match self.publish() {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => failure.tell("pub"),
        }
    }

    fn publish(&self) -> Result<(), Failure> {
        if !topic::is_name(&self.topic) {
            let why = "is no topic to publish to: it is empty, too long, or has a wildcard (+ or #) in it";
            return Err(Failure::Usage(format!("{:?} {why}", self.topic)));
        }
        let mut source = self.what.open()?;
        let patience = Duration::from_secs(self.timeout);
        let Granted { link, receive_maximum } = begin(&self.to, patience)?;
        let mut properties = PropertyBuffer::new();
        let user = self.user_properties.iter().map(|(name, value)| Property::User(name, value));
        for property in user.chain(self.expiry.map(Property::MessageExpiry)) {
            let pushed = properties.push(property);
            pushed.map_err(|error| Failure::Usage(error.what().to_owned()))?;
        }
        if link.version == Version::V3 && !properties.get().is_empty() {
            let why = "MQTT 3.1.1 is spoken, which has neither user properties nor an expiry";
            return Err(Failure::Usage(why.into()));
        }
        let under_way = Vec::new();
        let most = receive_maximum.min(MAX_INFLIGHT);
        let mut sending = Sending { own: self, link, properties, under_way, next: 0, most };
        sending.send(&mut source, patience)?;
        sending.link.leave()
    }
}

/// Messages of QoS 1 and 2 that are under way at once.
const MAX_INFLIGHT: usize = 256;

/// Messages on their way.
struct Sending<'a> {
    own: &'a Pub,
    link: Link,
    properties: PropertyBuffer,
    under_way: Vec<PacketId>,
    next: u16,
    most: usize,
}

impl Sending<'_> {
    /// Sends all that comes, and waits for the answers.
    fn send(&mut self, source: &mut Source, patience: Duration) -> Result<(), Failure> {
        loop {
            let mut has_room = self.has_room();
            while has_room && let Some(payload) = source.next() {
                self.publish(&payload)?;
                has_room = self.has_room();
            }
            let is_done = self.under_way.is_empty() && self.link.is_flushed();
            if source.is_ended() && is_done {
                return Ok(());
            }
            let stdin = io::stdin();
            let input = (has_room && !source.is_ended()).then(|| stdin.as_fd());
            // For more input nobody need hurry.
            let until = (!is_done).then(|| Instant::now() + patience);
            match self.link.next(until, input)? {
                Happened::Came(came) => self.answered(&came)?,
                Happened::Input => source.read()?,
                Happened::Late => {
                    let missing = self.under_way.len();
                    let why = format!("the broker does not answer; {missing} messages are unsure");
                    return Err(Failure::Late(why));
                }
            }
        }
    }

    fn has_room(&self) -> bool {
        self.under_way.len() < self.most && self.link.is_flushed()
    }

    fn publish(&mut self, payload: &[u8]) -> Result<(), Failure> {
        let delivery = match self.own.qos {
            QoS::AtMostOnce => Delivery::AtMostOnce,
            QoS::AtLeastOnce => Delivery::AtLeastOnce(self.id()),
            QoS::ExactlyOnce => Delivery::ExactlyOnce(self.id()),
        };
        self.link.say(&Packet::Publish(Publish {
            topic: &self.own.topic,
            payload,
            delivery,
            retain: self.own.retain,
            duplicate: false,
            properties: self.properties.get(),
        }))
    }

    /// A number that no message under way has.
    fn id(&mut self) -> PacketId {
        loop {
            self.next = self.next.wrapping_add(1);
            if let Some(id) = PacketId::new(self.next)
                && !self.under_way.contains(&id)
            {
                self.under_way.push(id);
                return id;
            }
        }
    }

    fn answered(&mut self, came: &Came) -> Result<(), Failure> {
        let done = match came.packet()? {
            Packet::PubAck(ack) | Packet::PubRec(ack) if ack.reason.is_failure() => {
                let why = words(ack.reason, ack.properties);
                return Err(Failure::Broker(format!("the broker refuses the message: {why}")));
            }
            Packet::PubRec(ack) => return self.link.say(&Packet::PubRel(Ack::of(ack.id))),
            Packet::PubAck(ack) => ack.id,
            Packet::PubComp(Ack { id, reason: Reason::SUCCESS, .. }) => id,
            Packet::PubComp(ack) => {
                let why = words(ack.reason, ack.properties);
                return Err(Failure::Broker(format!("the message may have arrived twice: {why}")));
            }
            _ => return Ok(()),
        };
        self.under_way.retain(|id| *id != done);
        Ok(())
    }
}

/// Where messages come from.
enum Source {
    /// One, until it was taken.
    Once(Option<Vec<u8>>),
    /// Lines: what was read of them, and whether there is more.
    Lines { read: Vec<u8>, ended: bool },
}

impl What {
    fn open(&self) -> Result<Source, Failure> {
        let of_file = |path: &PathBuf| {
            if path.as_os_str() == "-" {
                let mut bytes = Vec::new();
                return io::Read::read_to_end(&mut io::stdin(), &mut bytes).map(|_| bytes);
            }
            std::fs::read(path)
        };
        Ok(match (&self.message, &self.file) {
            (Some(text), _) => Source::Once(Some(text.clone().into_bytes())),
            (None, Some(path)) => Source::Once(Some(
                of_file(path)
                    .map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?,
            )),
            (None, None) => Source::Lines { read: Vec::new(), ended: false },
        })
    }
}

impl Source {
    /// The next message that is there.
    fn next(&mut self) -> Option<Vec<u8>> {
        match self {
            Self::Once(message) => message.take(),
            Self::Lines { read, ended } => {
                let Some(end) = read.iter().position(|byte| *byte == b'\n') else {
                    // The last line may have no end.
                    let rest = *ended && !read.is_empty();
                    return rest.then(|| std::mem::take(read));
                };
                let mut line: Vec<u8> = read.drain(..=end).collect();
                line.pop();
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                Some(line)
            }
        }
    }

    /// Whether nothing more comes.
    fn is_ended(&self) -> bool {
        match self {
            Self::Once(message) => message.is_none(),
            Self::Lines { read, ended } => *ended && read.is_empty(),
        }
    }

    /// Reads what is there.
    fn read(&mut self) -> Result<(), Failure> {
        let Self::Lines { read, ended } = self else { return Ok(()) };
        let mut chunk = [0; 16 * 1024];
        match rustix::io::read(io::stdin(), &mut chunk) {
            Ok(0) => *ended = true,
            Ok(count) => read.extend_from_slice(&chunk[..count]),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => (),
            Err(error) => return Err(Failure::of_system("cannot read the input", &error.into())),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_messages() {
        let mut source = Source::Lines { read: b"one\r\n\nlast".to_vec(), ended: false };
        assert_eq!(source.next().as_deref(), Some(&b"one"[..]));
        assert_eq!(source.next().as_deref(), Some(&b""[..]));
        assert_eq!((source.next(), source.is_ended()), (None, false));
        let Source::Lines { ended, .. } = &mut source else { unreachable!() };
        *ended = true;
        assert_eq!(source.next().as_deref(), Some(&b"last"[..]));
        assert_eq!((source.next(), source.is_ended()), (None, true));
    }

    #[test]
    fn user_properties() {
        assert_eq!(user_property("k=a=b"), Ok(("k".into(), "a=b".into())));
        assert!(user_property("k").is_err() && user_property("=v").is_err());
    }
}
