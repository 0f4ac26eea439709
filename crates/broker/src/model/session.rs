//! The state of a session.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Weak;
use std::sync::Arc;
use std::time::Duration;

use phalanx_mqtt::{PacketId, QoS, Reason, Version};

use crate::access::Identity;
use crate::events::Origin;
use crate::events::drops::{DropReason, Dropped, Drops};
use crate::model::delivery::How;
use crate::model::inflight::InflightTable;
use crate::model::maps::few_map::FewMap;
use crate::model::maps::small_map::SmallMap;
use crate::model::message::Message;
use crate::model::moving::Moving;
use crate::model::node_capacity::NodeCapacity;
use crate::model::qos2::Qos2InFlight;
use crate::model::subscriptions::subscription_size::SubscriptionSize;
use crate::model::waiting_sender::WaitingSender;
use phalanx::sync::Notify;

/// The numbers of the adoptions through which a session came to this node, oldest first; `None` for most sessions.
pub(crate) type Adoptions = Option<Arc<[u32]>>;

/// The state of a client that outlives a connection.
pub(crate) struct Session {
    pub(crate) client_id: Arc<str>,
    /// The owner; `None` for an anonymous client.
    pub(crate) user: Option<Arc<str>>,
    /// The ID in the journal; 0 if nothing is stored.
    pub(crate) number: u64,
    /// Whether the session itself is stored. If not, `number` is that of its will only.
    pub(crate) lasts: bool,
    /// The attached connection, if any.
    pub(crate) attachment: Option<Attachment>,
    /// The keys of its subscriptions, and their sizes.
    pub(crate) keys: FewMap<Box<str>, SubscriptionSize>,
    /// The number of shared subscriptions.
    pub(crate) shared: usize,
    /// Whether the client counts as online for its shared subscriptions.
    pub(crate) is_online: bool,
    /// For another node: the capacity of its queue, for which publishers wait.
    pub(crate) node_capacity: Option<Arc<NodeCapacity>>,
    /// Whether the router may know this session.
    pub(crate) routed: bool,
    /// Messages waiting to be written, in order, and their size in bytes.
    pub(crate) queue: VecDeque<Queued>,
    pub(crate) queued_bytes: usize,
    /// No queued message before this position has QoS 0.
    pub(crate) searched: usize,
    /// The queue is not searched for expired messages before this time.
    pub(crate) sweep: Duration,
    pub(crate) inflight: InflightTable,
    /// QoS 2 messages received from the client, until it releases them.
    pub(crate) received: SmallMap<PacketId, Option<Arc<Qos2InFlight>>>,
    /// Session expiry interval in seconds; `u32::MAX` for never.
    pub(crate) expiry: u32,
    /// Time at which the last connection ended, in seconds since 1970; 0 while connected, or if the session is not
    /// stored.
    pub(crate) left: u64,
    /// Time of expiry, while disconnected.
    pub(crate) ends: Option<Duration>,
    /// Time of the scheduled timer.
    pub(crate) watched: Option<Duration>,
    /// The adoptions whose handovers may still be awaited.
    pub(crate) adoptions: Adoptions,
    /// The number of moves between nodes, and the state of the current move.
    pub(crate) moves: u32,
    pub(crate) moving: Moving,
    /// Boxed, because most clients have none.
    pub(crate) will: Option<Box<Will>>,
}

/// The number of messages held for a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SessionLoad {
    /// Messages that wait to be sent, and their bytes.
    pub(crate) queued: usize,
    pub(crate) queued_bytes: usize,
    /// QoS 1 and 2 messages that the client has not completed.
    pub(crate) inflight: usize,
}

/// A client's will.
pub(crate) struct Will {
    pub(crate) message: Message,
    pub(crate) delay: Duration,
    /// Time of publication, once the connection is lost.
    pub(crate) due: Option<Duration>,
}

impl Will {
    /// Whether the will is cancelled if the client returns at `now`.
    pub(crate) fn is_in_time(&self, now: Duration) -> bool {
        !self.delay.is_zero() && self.due.is_none_or(|due| due > now)
    }
}

/// A queued message.
pub(crate) struct Queued {
    pub(crate) message: Arc<Message>,
    pub(crate) how: How,
    /// The delivery's ID in the journal; 0 if not stored.
    pub(crate) number: u64,
}

/// The connection attached to a session.
pub(crate) struct Attachment {
    /// The connection's number in the partition.
    pub(crate) number: u64,
    pub(crate) version: Version,
    /// `None` in tests without a connection.
    pub(crate) origin: Option<Origin>,
    /// The reason if the connection is to be ended.
    pub(crate) ended: Option<Reason>,
    /// The receive maximum of the client. See [`window`](Self::window).
    pub(crate) receive_maximum: usize,
    /// Maximum packet size of the client, in bytes.
    pub(crate) most: usize,
    /// The topics with an alias, their size in bytes, and the maximum number of aliases.
    pub(crate) aliases: SmallMap<Box<str>, u16>,
    pub(crate) alias_bytes: usize,
    pub(crate) most_aliases: u16,
    /// Output that the sender has not pulled yet, and the number of QoS 0 messages in it.
    pub(crate) out: Vec<u8>,
    pub(crate) unsent: usize,
    /// Whether the output must not be sent before the session's changes are on disk.
    pub(crate) is_fenced: bool,
    /// Messages in flight that have to be retransmitted.
    pub(crate) again: VecDeque<PacketId>,
    /// Boxed, because most connections have none.
    pub(crate) earlier: Option<Box<Earlier>>,
    /// Wakes the sender when there is output.
    pub(crate) waiting: Notify,
    /// The sender, if it was on the session's processor when it first waited.
    pub(crate) sender: Option<Weak<dyn WaitingSender>>,
    /// Whether that sender waits, and there is no output.
    pub(crate) is_idle: bool,
    /// Whether the current or the next pull has to return immediately.
    pub(crate) is_interrupted: bool,
}

/// Packet identifiers of earlier connections. They do not count towards the receive maximums of this one (§4.9).
#[derive(Default)]
pub(crate) struct Earlier {
    /// Identifiers of QoS 2 messages that the client has neither released nor sent again on this connection.
    pub(crate) received: BTreeSet<PacketId>,
    /// Identifiers of messages that the client had received, and whose PUBREL is sent again.
    pub(crate) released: BTreeSet<PacketId>,
}

impl Session {
    pub(crate) fn new(client_id: Arc<str>, user: Option<Arc<str>>) -> Self {
        Self {
            client_id,
            user,
            number: 0,
            lasts: false,
            attachment: None,
            keys: FewMap::default(),
            shared: 0,
            is_online: false,
            node_capacity: None,
            routed: false,
            queue: VecDeque::new(),
            queued_bytes: 0,
            searched: 0,
            sweep: Duration::MAX,
            inflight: InflightTable::default(),
            received: SmallMap::default(),
            expiry: 0,
            left: 0,
            ends: None,
            watched: None,
            adoptions: None,
            moves: 0,
            moving: Moving::No,
            will: None,
        }
    }

    /// Takes the first queued message.
    pub(crate) fn pop_queued(&mut self) -> Option<Queued> {
        let first = self.queue.pop_front()?;
        self.queued_bytes -= first.message.size();
        self.searched = self.searched.saturating_sub(1);
        Some(first)
    }

    /// Takes the oldest queued message of QoS 0. This moves the messages before or after it, whichever are fewer, so at
    /// most half of the queue.
    pub(crate) fn take_oldest_at_most_once(&mut self) -> Option<Queued> {
        let mut rest = self.queue.range(self.searched.min(self.queue.len())..);
        let found = rest.position(|queued| queued.how.qos == QoS::AtMostOnce);
        self.searched = found.map_or(self.queue.len(), |ahead| self.searched + ahead);
        let oldest = found.and_then(|_| self.queue.remove(self.searched))?;
        self.queued_bytes -= oldest.message.size();
        Some(oldest)
    }

    /// Replaces the queue with a subset of its messages, which has this size in bytes.
    pub(crate) fn set_queue(&mut self, queue: VecDeque<Queued>) {
        self.queued_bytes = queue.iter().map(|queued| queued.message.size()).sum();
        (self.queue, self.searched) = (queue, 0);
    }

    /// The messages held for the client, including marks.
    pub(crate) fn held(&self) -> SessionLoad {
        let Self { queue, queued_bytes, inflight, .. } = self;
        let (queued, queued_bytes) = (queue.len(), *queued_bytes);
        SessionLoad { queued, queued_bytes, inflight: inflight.len() }
    }

    /// The session's part of the gauges: the messages held for the client. Nothing for a copy, because another node has or
    /// may have the session, and counts its messages.
    pub(crate) fn load(&self) -> SessionLoad {
        let mut load = self.held();
        match &self.moving {
            Moving::No | Moving::Arrived(_) => (),
            Moving::Leaving { marks, .. } => {
                load.queued -= marks.count;
                load.queued_bytes -= marks.bytes;
            }
            Moving::Given(_) | Moving::Arriving { .. } => load = SessionLoad::default(),
        }
        load
    }

    /// Detaches the connection. Its unsent QoS 0 messages are dropped.
    pub(crate) fn detach(&mut self, drops: &Drops) {
        if let Some(attachment) = self.attachment.take() {
            let what = || Dropped { origin: attachment.origin, ..self.as_receiver() };
            drops.add(DropReason::ConnectionLost, attachment.unsent, what);
        }
    }

    /// Counts the queued and unacknowledged messages of an ended session as dropped.
    pub(crate) fn discard(&self, drops: &Drops) {
        if self.moving.is_copy() {
            return;
        }
        let unanswered = self.inflight.iter().filter_map(|(_, inflight)| inflight.message.as_ref());
        let waiting = self.queue.iter().map(|queued| &queued.message);
        let mut left = waiting.chain(unanswered.map(|(message, _)| message));
        if let Some(message) = left.next() {
            let what = || self.dropped_message(message);
            drops.add(DropReason::SessionEnded, 1 + left.count(), what);
        }
    }

    /// Describes the client as the receiver of dropped messages.
    pub(crate) fn as_receiver(&self) -> Dropped<'_> {
        let origin = self.attachment.as_ref().and_then(|attachment| attachment.origin);
        let (client, user) = (Some(&*self.client_id), self.user.as_deref());
        Dropped { client, user, origin, ..Dropped::default() }
    }

    /// Describes a message that is dropped for this client.
    pub(crate) fn dropped_message<'a>(&'a self, message: &'a Message) -> Dropped<'a> {
        Dropped { topic: Some(&message.topic), ..self.as_receiver() }
    }

    /// The identity for authorization.
    pub(crate) fn identity(&self) -> Identity {
        Identity { user: self.user.clone(), client: self.client_id.clone() }
    }

    /// The session's ID in the journal; 0 if it is not persistent.
    pub(crate) fn durable_id(&self) -> u64 {
        if self.lasts { self.number } else { 0 }
    }

    /// Whether the session has expired at `now`, because its client was disconnected for too long.
    pub(crate) fn has_expired(&self, now: Duration) -> bool {
        self.ends.is_some_and(|ends| ends <= now)
    }

    /// The packet identifiers of earlier connections, if there are any.
    pub(crate) fn earlier(&mut self) -> Option<&mut Earlier> {
        self.attachment.as_mut()?.earlier.as_deref_mut()
    }

    /// The packet identifiers in use when a connection begins.
    pub(crate) fn in_use(&self) -> Option<Box<Earlier>> {
        let received: BTreeSet<_> = self.received.keys().copied().collect();
        let released = self.inflight.iter().filter(|(_, entry)| entry.message.is_none());
        let released: BTreeSet<_> = released.map(|(id, _)| id).collect();
        let is_used = !(received.is_empty() && released.is_empty());
        is_used.then(|| Box::new(Earlier { received, released }))
    }

    /// Whether connection `number` is attached.
    pub(crate) fn is_on(&self, number: u64) -> bool {
        self.attachment.as_ref().is_some_and(|attachment| attachment.number == number)
    }

    /// The attached connection, if its number is `number`.
    pub(crate) fn on(&mut self, number: u64) -> Option<&mut Attachment> {
        self.attachment.as_mut().filter(|attachment| attachment.number == number)
    }
}

impl Attachment {
    /// Maximum number of messages in flight to the client: its receive maximum, plus those of earlier connections, which
    /// do not count towards it.
    pub(crate) fn window(&self) -> usize {
        self.receive_maximum + self.earlier.as_ref().map_or(0, |earlier| earlier.released.len())
    }

    /// Reuses a buffer if the output has none.
    pub(crate) fn take_spare(&mut self, spares: &mut Vec<Vec<u8>>) {
        if self.out.capacity() == 0 {
            self.out = spares.pop().unwrap_or_default();
        }
    }

    /// Wakes the sender.
    pub(crate) fn wake(&mut self) {
        self.is_idle = false;
        self.waiting.notify();
    }

    /// Sends the output directly, if the sender waits. Returns whether it was sent.
    pub(crate) fn send_now(&mut self) -> bool {
        let sender = self.sender.as_ref().filter(|_| self.is_idle).and_then(Weak::upgrade);
        let is_sent = sender.is_some_and(|sender| sender.send_now(&self.out));
        if is_sent {
            self.out.clear();
            self.unsent = 0;
        }
        is_sent
    }
}
