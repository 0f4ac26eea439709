//! A user of the store that stands in for a broker with some clients. Its entries are random, each like one that an
//! MQTT packet causes.

use fastrand::Rng;
use phalanx_store::{DeliveryId, Entry, MessageId, Phase, Record, SessionId};

use crate::power::model::Model;

/// The result of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AppendOutcome {
    Unknown,
    Kept,
    Refused,
}

/// A user of the store: the names of its sessions' clients and its topics start with its name.
pub(crate) struct User {
    pub(crate) name: String,
    /// The distance between successive numbers of a user.
    step: u64,
    next: u64,
    /// The expected content if no append is refused.
    view: Model,
    rng: Rng,
}

impl User {
    /// The user `number` of `of`, which starts with `view`. Numbers from `next` on are free.
    pub(crate) fn new(number: u64, of: u64, next: u64, view: Model, rng: Rng) -> Self {
        let next = next.div_ceil(of) * of + number;
        Self { name: format!("{number}:"), step: of, next, view, rng }
    }

    fn number(&mut self) -> u64 {
        self.next += self.step;
        self.next - self.step
    }

    /// The next entry to append.
    pub(crate) fn entry(&mut self) -> Entry {
        let mut entry = Entry::new();
        let ids: Vec<u64> = self.view.sessions.keys().copied().collect();
        let Some(id) = self.rng.choice(ids).filter(|_| self.rng.u8(..20) > 0) else {
            self.connect(&mut entry);
            self.view.apply(entry.records());
            return entry;
        };
        let session = SessionId(id);
        let queue: Vec<u64> = self.view.sessions[&id].queue.keys().copied().collect();
        let delivery = DeliveryId(self.rng.choice(queue).unwrap_or(1));
        let packet = self.rng.u16(1..6);
        match self.rng.u8(..24) {
            0 => entry.push(&Record::SessionEnd { session }),
            1 => {
                let client = self.view.sessions[&id].properties.0.clone();
                let (left, will) = (self.rng.u64(1..9), [7; 3]);
                entry.push(&Record::Session {
                    session,
                    client: &client,
                    expiry: 5,
                    left,
                    will: &will,
                });
            }
            2..5 => {
                let (filter, identifier) = (format!("f{}", self.rng.u8(..4)), self.rng.u32(..500));
                let filter = filter.as_str();
                entry.push(&Record::Subscribe { session, filter, options: 2, identifier });
            }
            5 => entry.push(&Record::Unsubscribe { session, filter: "f1" }),
            6..9 => entry.push(&Record::Sent { session, delivery, packet }),
            9..11 => entry.push(&Record::Received { session, delivery }),
            11..15 => entry.push(&Record::Done { session, delivery }),
            15 => entry.push(&Record::IncomingDone { session, packet }),
            16 => entry.push(&Record::Unretain { topic: &format!("{}t1", self.name) }),
            17 => (),
            _ => self.publish(&mut entry, session, packet),
        }
        self.view.apply(entry.records());
        entry
    }

    /// A refused entry has no effect: its new session does not exist.
    pub(crate) fn refused(&mut self, entry: &Entry) {
        for record in entry.records() {
            if let Record::Session { session, left: 0, .. } = record {
                self.view.sessions.remove(&session.0);
            }
        }
    }

    fn connect(&mut self, entry: &mut Entry) {
        let session = SessionId(self.number());
        let client = format!("{}{}", self.name, session.0);
        entry.push(&Record::Session { session, client: &client, expiry: 60, left: 0, will: &[] });
    }

    /// Adds a message that is queued, retained, both or neither.
    fn publish(&mut self, entry: &mut Entry, session: SessionId, packet: u16) {
        let message = MessageId(self.number());
        let payload: Vec<u8> = (0..self.rng.usize(..60)).map(|_| self.rng.u8(..)).collect();
        let topic = format!("{}t{}", self.name, self.rng.u8(..3));
        let (topic, properties) = (topic.as_str(), &[1, 2][..]);
        let (flags, expires, payload) = (1, 0, payload.as_slice());
        entry.push(&Record::Message { message, topic, payload, properties, flags, expires });
        if self.rng.bool() {
            entry.push(&Record::Incoming { session, packet });
        }
        if self.rng.u8(..4) == 0 {
            entry.push(&Record::Retain { topic, message });
        }
        let all: Vec<u64> = self.view.sessions.keys().copied().collect();
        for session in all {
            if self.rng.u8(..3) > 0 {
                let (session, delivery) = (SessionId(session), DeliveryId(self.number()));
                let (options, phase) = (2, Phase::Queued);
                entry.push(&Record::Queue {
                    session,
                    delivery,
                    message,
                    options,
                    properties,
                    phase,
                });
            }
        }
    }
}
