//! Encoding of messages, wills and sessions in the journal. Later versions have to read it, so a new field gets a new
//! tag.

use std::sync::Arc;
use std::time::Duration;

use phalanx::time::{now, time_of_day};
use phalanx_mqtt::{Properties, QoS};
use phalanx_store::{Entry, MessageId, Record, SessionId};

use crate::model::message::{Message, StoredMessage};
use crate::model::moving::Moving;
use crate::model::session::{Adoptions, Session, Will};
use crate::model::stamp::Stamp;

/// The part of a session's state that the store does not interpret.
#[derive(Default)]
pub(crate) struct Extras {
    pub(crate) will: Option<Will>,
    /// Wills of earlier connections that the router has not accepted yet.
    pub(crate) pending_wills: Vec<Message>,
    /// The owner; `None` for an anonymous client's session.
    pub(crate) user: Option<Arc<str>>,
    pub(crate) adoptions: Adoptions,
    /// The number of moves between nodes, and the state of the last move.
    pub(crate) moves: u32,
    pub(crate) moving: Moving,
}

/// The time on two clocks, read together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clocks {
    /// The runtime's clock.
    pub(crate) now: Duration,
    /// The time of day, since 1970.
    pub(crate) day: Duration,
}

impl Clocks {
    pub(crate) fn read() -> Self {
        Self { now: now(), day: time_of_day() }
    }

    /// Converts a time of the runtime's clock to seconds since 1970. Never returns 0, which means "none".
    pub(crate) fn to_day(self, at: Duration) -> u64 {
        let day = (self.day + at).saturating_sub(self.now);
        (day.as_secs() + u64::from(day.subsec_nanos() > 0)).max(1)
    }

    /// Like [`to_day`](Self::to_day), in milliseconds.
    fn to_day_ms(self, at: Duration) -> u64 {
        ((self.day + at).saturating_sub(self.now).as_millis() as u64).max(1)
    }

    /// Converts seconds since 1970 to the runtime's clock. Returns 0 for times before the clock started.
    pub(crate) fn of_day(self, day: u64) -> Duration {
        (self.now + Duration::from_secs(day)).saturating_sub(self.day)
    }

    fn of_day_ms(self, day: u64) -> Duration {
        (self.now + Duration::from_millis(day)).saturating_sub(self.day)
    }
}

const RETAIN: u8 = 1 << 2;
/// The flags of a message whose publisher, or whose stamp and then its publisher, is stored before its properties.
const PUBLISHER: u8 = 1 << 3;
const STAMP: u8 = 1 << 4;

/// Encodes a QoS and the retain flag in a byte.
pub(crate) fn flags(qos: QoS, retain: bool) -> u8 {
    qos as u8 | if retain { RETAIN } else { 0 }
}

/// Decodes a byte written by [`flags`]; `None` if it is invalid.
pub(crate) fn of_flags(flags: u8) -> Option<(QoS, bool)> {
    (flags & !(3 | RETAIN) == 0).then_some(())?;
    Some((QoS::from_u8(flags & 3).ok()?, flags & RETAIN != 0))
}

/// Appends the record of a message.
pub(crate) fn put_message(entry: &mut Entry, number: u64, message: &Message) {
    let stored = message.stored();
    let (mut flags, mut with_others) = (flags(stored.qos, stored.retain), Vec::new());
    if message.stamp().is_set() {
        flags |= STAMP;
        with_others.extend(message.stamp().number().to_le_bytes());
    }
    if let Some(publisher) = &message.publisher {
        flags |= PUBLISHER;
        put(&mut with_others, publisher.as_bytes());
    }
    let mut properties = stored.properties.as_bytes();
    if !with_others.is_empty() {
        with_others.extend_from_slice(properties);
        properties = &with_others;
    }
    entry.push(&Record::Message {
        message: MessageId(number),
        topic: stored.topic,
        payload: stored.payload,
        properties,
        flags,
        expires: message.expires().map_or(0, |at| Clocks::read().to_day_ms(at)),
    });
}

/// Decodes a message written by [`put_message`]; `None` if it is invalid. `last` is the publisher of the previous
/// message, which is shared if it is the same.
pub(crate) fn read_message(
    number: u64,
    from: phalanx_store::Message,
    clocks: Clocks,
    last: &mut Option<Arc<str>>,
) -> Option<Message> {
    let phalanx_store::Message { topic, payload, properties, flags, expires, .. } = from;
    let (qos, retain) = of_flags(flags & !(PUBLISHER | STAMP))?;
    let mut properties = &properties[..];
    let stamp = match flags & STAMP {
        0 => 0,
        _ => u64::from_le_bytes(*properties.split_off(..8)?.first_chunk()?),
    };
    if flags & PUBLISHER != 0 {
        let publisher = str::from_utf8(take(&mut properties)?).ok()?;
        if last.as_deref() != Some(publisher) {
            *last = Some(publisher.into());
        }
    }
    let properties = Properties::from_bytes(properties).ok()?;
    let expires = (expires > 0).then(|| clocks.of_day_ms(expires));
    let mut message =
        Message::from_buffers(number, (topic, payload), (properties, qos, retain), expires);
    message.publisher = last.clone().filter(|_| flags & PUBLISHER != 0);
    message.set_stamp(Stamp::of_number(stamp));
    Some(message)
}

/// Appends the record of a persistent session and its pending wills.
pub(crate) fn put_session<'m>(
    entry: &mut Entry,
    session: &Session,
    pending_wills: impl Iterator<Item = &'m Message>,
) {
    entry.push(&Record::Session {
        session: SessionId(session.number),
        client: &session.client_id,
        expiry: session.expiry,
        left: session.left,
        will: &Extras::write(
            (session.will.as_deref(), session.user.as_deref(), session.adoptions.as_deref()),
            (session.moves, session.moving.code()),
            pending_wills,
        ),
    });
}

/// Appends the record of a session that moves to another node, with this will only.
pub(crate) fn put_moving(entry: &mut Entry, session: &Session, will: Option<&Will>) {
    let (user, moves) = (session.user.as_deref(), (session.moves, 0));
    entry.push(&Record::Session {
        session: SessionId(session.number),
        client: &session.client_id,
        expiry: session.expiry,
        left: session.left,
        will: &Extras::write((will, user, None), moves, [].into_iter()),
    });
}

mod tag {
    pub(super) const WILL: u8 = 1;
    pub(super) const USER: u8 = 2;
    pub(super) const PENDING_WILL: u8 = 3;
    pub(super) const ADOPTIONS: u8 = 4;
    pub(super) const MOVES: u8 = 5;
}

/// The expiry that means that a will's message does not expire.
const NEVER: u64 = u64::MAX;

impl Extras {
    fn write<'m>(
        (will, user, adoptions): (Option<&Will>, Option<&str>, Option<&[u32]>),
        (moves, moving): (u32, u8),
        pending_wills: impl Iterator<Item = &'m Message>,
    ) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(user) = user {
            field(&mut out, tag::USER, |out| out.extend_from_slice(user.as_bytes()));
        }
        if let Some(Will { message, delay, .. }) = will {
            field(&mut out, tag::WILL, |out| write_will(message, *delay, out));
        }
        if let Some(adoptions) = adoptions {
            let bytes = adoptions.iter().flat_map(|adoption| adoption.to_le_bytes());
            field(&mut out, tag::ADOPTIONS, |out| out.extend(bytes));
        }
        if (moves, moving) != (0, 0) {
            field(&mut out, tag::MOVES, |out| {
                out.extend(moves.to_le_bytes());
                out.push(moving);
            });
        }
        for message in pending_wills {
            field(&mut out, tag::PENDING_WILL, |out| write_will(message, Duration::ZERO, out));
        }
        out
    }

    /// Decodes the fields; `None` if they are invalid.
    pub(crate) fn read(mut bytes: &[u8]) -> Option<Self> {
        let mut extras = Self::default();
        while let Some((tag, rest)) = bytes.split_first() {
            bytes = rest;
            let field = take(&mut bytes)?;
            match *tag {
                tag::WILL => extras.will = Some(read_will(field)?),
                tag::PENDING_WILL => extras.pending_wills.push(read_will(field)?.message),
                tag::ADOPTIONS => {
                    let (all, rest) = field.as_chunks::<4>();
                    let all = all.iter().map(|adoption| u32::from_le_bytes(*adoption));
                    extras.adoptions = rest.is_empty().then(|| Some(all.collect()))?;
                }
                tag::MOVES => {
                    let (moves, rest) = field.split_first_chunk()?;
                    let [moving] = rest else { return None };
                    extras.moves = u32::from_le_bytes(*moves);
                    extras.moving = Moving::of_code(*moving)?;
                }
                tag::USER => extras.user = Some(str::from_utf8(field).ok()?.into()),
                _ => return None,
            }
        }
        Some(extras)
    }
}

fn write_will(message: &Message, delay: Duration, out: &mut Vec<u8>) {
    let stored = message.stored();
    // The expiry interval starts when the will is published.
    let expires = message.expires().map_or(NEVER, |at| at.as_secs());
    out.extend_from_slice(&delay.as_secs().to_le_bytes());
    out.extend_from_slice(&expires.to_le_bytes());
    out.push(flags(stored.qos, stored.retain));
    for bytes in [stored.topic.as_bytes(), stored.payload, stored.properties.as_bytes()] {
        put(out, bytes);
    }
}

fn read_will(mut bytes: &[u8]) -> Option<Will> {
    let mut number = || Some(u64::from_le_bytes(*bytes.split_off(..8)?.first_chunk()?));
    let (delay, expires) = (number()?, number()?);
    let (qos, retain) = of_flags(*bytes.split_off_first()?)?;
    let [topic, payload, properties] = [take(&mut bytes)?, take(&mut bytes)?, take(&mut bytes)?];
    let stored = StoredMessage {
        topic: str::from_utf8(topic).ok()?,
        payload,
        properties: Properties::from_bytes(properties).ok()?,
        qos,
        retain,
    };
    let expires = (expires != NEVER).then(|| Duration::from_secs(expires));
    let message = Message::from_stored(0, &stored, expires);
    Some(Will { message, delay: Duration::from_secs(delay), due: None })
}

fn field(out: &mut Vec<u8>, tag: u8, write: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = Vec::new();
    write(&mut bytes);
    out.push(tag);
    put(out, &bytes);
}

/// Appends bytes with their length.
fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    // The length fits, because the bytes came from a packet.
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn take<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = u32::from_le_bytes(*bytes.split_off(..4)?.first_chunk()?);
    bytes.split_off(..length as usize)
}

#[cfg(test)]
mod tests {
    use phalanx_mqtt::{Property, PropertyBuffer};
    use phalanx_store::Recovered;

    use super::*;

    fn will(expires: Option<u32>) -> Will {
        let mut properties = PropertyBuffer::new();
        properties.push(Property::User("k", "v")).unwrap();
        properties.push(Property::WillDelay(7)).unwrap();
        let expiry = expires.map(Property::MessageExpiry);
        expiry.into_iter().for_each(|expiry| properties.push(expiry).unwrap());
        let will = phalanx_mqtt::Will {
            topic: "t",
            payload: b"gone",
            qos: QoS::AtLeastOnce,
            retain: true,
            properties: properties.get(),
        };
        Will { message: Message::of_will(&will), delay: Duration::from_secs(7), due: None }
    }

    #[test]
    fn wills_read_back() {
        for expires in [None, Some(0), Some(u32::MAX)] {
            let will = will(expires);
            let bytes =
                Extras::write((Some(&will), None, None), (3, 1), [&will.message; 2].into_iter());
            let Extras { will: read, pending_wills, moves, moving, .. } =
                Extras::read(&bytes).unwrap();
            assert_eq!((moves, moving.code()), (3, 1));
            let read = read.unwrap();
            let topics: Vec<_> =
                pending_wills.iter().map(|will| (will.topic.as_str(), will.expires())).collect();
            assert_eq!(topics, [("t", read.message.expires()); 2]);
            assert_eq!((read.delay, read.due), (will.delay, None));
            assert_eq!(read.message.expires(), expires.map(|s| Duration::from_secs(s.into())));
            let [a, b] = [&read.message, &will.message].map(Message::stored);
            assert_eq!(
                (a.topic, a.payload, a.qos, a.retain),
                (b.topic, b.payload, b.qos, b.retain)
            );
            assert!(a.properties.iter().eq(b.properties.iter()));
            let bytes = Extras::write((Some(&will), None, None), (0, 0), [].into_iter());
            for end in 1..bytes.len() {
                assert!(Extras::read(&bytes[..end]).is_none(), "cut at {end}");
            }
        }
        let (nothing, somebody) = (
            Extras::read(&[]),
            Extras::read(&Extras::write(
                (None, Some("eve"), Some(&[5, 7])),
                (0, 0),
                [].into_iter(),
            )),
        );
        assert!(nothing.is_some_and(|extras| extras.will.is_none() && extras.user.is_none()));
        assert!(somebody.is_some_and(|extras| extras.will.is_none()
            && extras.user.as_deref() == Some("eve")
            && extras.adoptions.as_deref() == Some(&[5, 7])));
        assert!(Extras::read(&[9, 0, 0, 0, 0]).is_none(), "a later version");
    }

    #[test]
    fn messages_read_back() {
        let at = Duration::from_secs(1_800_000_000);
        let stamps = [Stamp::default(), Stamp::default().next(at, "a")];
        for (stamp, publisher) in
            stamps.into_iter().flat_map(|stamp| [(stamp, None), (stamp, Some("p"))])
        {
            let mut message = will(None).message;
            message.publisher = publisher.map(Into::into);
            message.set_stamp(stamp);
            let mut entry = Entry::new();
            put_message(&mut entry, 7, &message);
            let recovered = Recovered::from_entry(entry.bytes()).unwrap();
            let stored = recovered.message(MessageId(7)).unwrap().clone();
            let read = read_message(7, stored, Clocks::default(), &mut None).unwrap();
            assert_eq!((read.stamp(), read.publisher.as_deref()), (stamp, publisher));
            assert!(read.user().eq([("k", "v")]) && read.payload == message.payload);
        }
    }

    #[test]
    fn times_are_converted_between_clocks() {
        let before = Clocks { now: Duration::from_secs(500), day: Duration::from_secs(10_000) };
        let after = Clocks { now: Duration::from_secs(1), day: Duration::from_secs(10_100) };
        let at = |seconds| after.of_day(before.to_day(Duration::from_secs(seconds)));
        assert_eq!(at(700), Duration::from_secs(101));
        assert_eq!(at(500), Duration::ZERO, "the delay is over");
        let at = |ms| after.of_day_ms(before.to_day_ms(Duration::from_millis(ms)));
        assert_eq!(at(700_250), Duration::from_millis(101_250));
    }
}
