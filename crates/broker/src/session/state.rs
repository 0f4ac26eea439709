//! One session.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use phalanx_mqtt::{PacketId, Version};

use crate::access::Identity;
use crate::drops::{DropReason, Drops};
use crate::message::Message;
use crate::notify::Notify;
use crate::routing::delivery::How;
use crate::session::qos2::Qos2InFlight;

/// What a client has beyond a connection.
pub(crate) struct Session {
    pub(crate) client_id: Arc<str>,
    /// Whose it is, if any user's.
    pub(crate) user: Option<Arc<str>>,
    /// The number that it is kept by; 0 if it is not.
    pub(crate) number: u64,
    /// Whether more of it than its will is to outlive its connection.
    pub(crate) lasts: bool,
    /// The connection that it is on, if any.
    pub(crate) attachment: Option<Attachment>,
    /// Its subscriptions, by what they are known by.
    pub(crate) keys: BTreeSet<Box<str>>,
    /// How many of them are shared.
    pub(crate) shared: usize,
    /// Whether the router may know of it.
    pub(crate) routed: bool,
    /// Messages that wait to be written, in order, and their bytes.
    pub(crate) queue: VecDeque<Queued>,
    pub(crate) queued_bytes: usize,
    /// None of them has expired before this, or is looked for before.
    pub(crate) sweep: Duration,
    /// Messages of QoS 1 and 2 that were written and not yet answered to the end.
    pub(crate) inflight: HashMap<PacketId, Inflight, foldhash::fast::RandomState>,
    pub(crate) next_id: u16,
    pub(crate) sequence: u64,
    /// Messages of QoS 2 that the client has begun and not yet released.
    pub(crate) received: HashMap<PacketId, Option<Arc<Qos2InFlight>>, foldhash::fast::RandomState>,
    /// Seconds that it outlives its connection; `u32::MAX` is for ever.
    pub(crate) expiry: u32,
    /// When its connection has ended, in seconds since 1970; 0 while it has one, or is not kept.
    pub(crate) left: u64,
    /// When it ends, once it has no connection.
    pub(crate) ends: Option<Duration>,
    /// When its partition looks after it next.
    pub(crate) watched: Option<Duration>,
    pub(crate) will: Option<Will>,
}

/// A client's will.
pub(crate) struct Will {
    pub(crate) message: Message,
    pub(crate) delay: Duration,
    /// When it is published, once the connection is lost.
    pub(crate) due: Option<Duration>,
}

impl Will {
    /// Whether a client that comes back at `now` is in time, so that its will is not published.
    pub(crate) fn is_in_time(&self, now: Duration) -> bool {
        !self.delay.is_zero() && self.due.is_none_or(|due| due > now)
    }
}

/// A message that waits.
pub(crate) struct Queued {
    pub(crate) message: Arc<Message>,
    pub(crate) how: How,
    /// The number that it is kept by; 0 if it is not.
    pub(crate) number: u64,
}

/// A message that was written, and whose delivery goes on.
pub(crate) struct Inflight {
    /// None once the client has it: only its number is still taken.
    pub(crate) message: Option<(Arc<Message>, How)>,
    /// In which order they were written.
    pub(crate) sequence: u64,
    /// The number that it is kept by; 0 if it is not.
    pub(crate) number: u64,
}

/// A connection, as its session sees it.
pub(crate) struct Attachment {
    /// Which of the partition's connections it is.
    pub(crate) number: u64,
    pub(crate) version: Version,
    /// How many messages may be in flight to it.
    pub(crate) receive_maximum: usize,
    /// Bytes of the longest packet that it takes.
    pub(crate) most: usize,
    /// The topics that have an alias on it, and how many may have one.
    pub(crate) aliases: HashMap<Box<str>, u16, foldhash::fast::RandomState>,
    pub(crate) most_aliases: u16,
    /// What is written and not yet fetched, and how many messages of QoS 0 that is.
    pub(crate) out: Vec<u8>,
    pub(crate) unsent: usize,
    /// Something of it says what is to be on the disk first.
    pub(crate) is_fenced: bool,
    /// Those in flight that are to be written again.
    pub(crate) again: VecDeque<PacketId>,
    /// Who waits for `out` to have something in it.
    pub(crate) waiting: Notify,
}

impl Session {
    pub(crate) fn new(client_id: Arc<str>, user: Option<Arc<str>>) -> Self {
        Self {
            client_id,
            user,
            number: 0,
            lasts: false,
            attachment: None,
            keys: BTreeSet::new(),
            shared: 0,
            routed: false,
            queue: VecDeque::new(),
            queued_bytes: 0,
            sweep: Duration::MAX,
            inflight: HashMap::default(),
            next_id: 0,
            sequence: 0,
            received: HashMap::default(),
            expiry: 0,
            left: 0,
            ends: None,
            watched: None,
            will: None,
        }
    }

    /// Its connection is over. What was to be sent on it of QoS 0 is dropped.
    pub(crate) fn detach(&mut self, drops: &Drops) {
        if let Some(attachment) = self.attachment.take() {
            let example = || format!("for client {:?}", self.client_id);
            drops.add(DropReason::ConnectionLost, attachment.unsent, example);
        }
    }

    /// It has ended. What waits for its client is dropped, and what the client has not acknowledged.
    pub(crate) fn discard(&self, drops: &Drops) {
        let unanswered = self.inflight.values().filter_map(|own| own.message.as_ref());
        let waiting = self.queue.iter().map(|own| &own.message);
        let mut left = waiting.chain(unanswered.map(|(message, _)| message));
        if let Some(message) = left.next() {
            let example = || format!("{:?} for client {:?}", message.topic, self.client_id);
            drops.add(DropReason::SessionEnded, 1 + left.count(), example);
        }
    }

    /// Who may receive what it subscribes to.
    pub(crate) fn identity(&self) -> Identity {
        Identity { user: self.user.clone(), client: self.client_id.clone() }
    }

    /// The number that what it has is kept by; 0 if it is not.
    pub(crate) fn durable_id(&self) -> u64 {
        if self.lasts { self.number } else { 0 }
    }

    /// Whether it is on the connection of this number.
    pub(crate) fn is_on(&self, number: u64) -> bool {
        self.attachment.as_ref().is_some_and(|attachment| attachment.number == number)
    }

    /// The connection of this number, if the session is on it.
    pub(crate) fn on(&mut self, number: u64) -> Option<&mut Attachment> {
        self.attachment.as_mut().filter(|attachment| attachment.number == number)
    }
}

impl Attachment {
    /// Wakes whoever waits for something to send.
    pub(crate) fn wake(&mut self) {
        self.waiting.notify();
    }
}
