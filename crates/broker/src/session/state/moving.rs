//! The queue of a session that moves, and the state of its holder: see `cluster/moving/mod.rs`.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use phalanx_store::{DeliveryId, Entry, MessageId, Phase, Record, SessionId};

use crate::access::is_of_node;
use crate::durable::{flags, put_message, put_moving};
use crate::model::client_key::ClientKey;
use crate::model::delivery::How;
use crate::model::message::{Message, Source};
use crate::model::moving::Cut;
use crate::model::session::{Queued, Session};

/// The origin of a queued message: another node, as its session here, or this node.
pub(in crate::session) type Origin = Option<ClientKey>;

fn origin(message: &Message) -> Origin {
    message.from.filter(|_| message.source != Source::Here)
}

/// A queue that marks divide.
pub(in crate::session) struct Divided {
    /// The journals of the nodes whose marks are in the queue, by origin.
    pub(in crate::session) cuts: HashMap<Origin, String>,
    /// For each queued message, whether it is behind the mark of its origin; `None` for a mark.
    pub(in crate::session) are_behind: Vec<Option<bool>>,
    /// The origins of messages that are ahead of a mark or have none.
    pub(in crate::session) before: HashSet<Origin>,
}

impl Divided {
    pub(in crate::session) fn of(queue: &VecDeque<Queued>) -> Self {
        let (mut cuts, mut before) = (HashMap::<Origin, String>::new(), HashSet::new());
        let mut is_behind = |queued: &Queued| {
            let origin = origin(&queued.message);
            if queued.message.source == Source::Cut {
                // Only the first mark of a node counts.
                let by =
                    || Cut::read(&queued.message.payload).map(|cut| cut.by).unwrap_or_default();
                cuts.entry(origin).or_insert_with(by);
                return None;
            }
            let is_behind = cuts.contains_key(&origin);
            if !is_behind {
                before.insert(origin);
            }
            Some(is_behind)
        };
        let are_behind = queue.iter().map(&mut is_behind).collect();
        Self { cuts, are_behind, before }
    }

    /// Whether the queue has the marks of all these nodes.
    pub(in crate::session) fn is_by(&self, nodes: &[String]) -> bool {
        nodes.iter().all(|node| self.cuts.values().any(|by| by == node))
    }
}

impl Session {
    /// Whether this session takes a mark: the mark belongs to the move that is under way, or the session has the messages for
    /// another node. The router may have sent a mark just before its move ended.
    pub(in crate::session) fn takes_cut(&self, message: &Message) -> bool {
        let cut = || Cut::read(&message.payload);
        is_of_node(&self.client_id)
            || cut().is_some_and(|cut| self.moving.token() == Some(&cut.token))
    }

    /// Begins the will delay, because the client is away.
    pub(in crate::session) fn begin_will_delay(&mut self, now: Duration) {
        let ends = self.ends;
        if let Some(will) = &mut self.will {
            let due = now + will.delay;
            will.due = Some(ends.map_or(due, |ends| ends.min(due)));
        }
    }

    /// Sets the queue. Removes the newest messages beyond the limits, and returns them: each of the two joined queues may have
    /// been full.
    pub(in crate::session) fn set_limited_queue(
        &mut self,
        mut queue: VecDeque<Queued>,
        (most, most_bytes): (usize, usize),
    ) -> Vec<Queued> {
        let mut bytes = queue.iter().map(|queued| queued.message.size()).sum::<usize>();
        let mut beyond = Vec::new();
        while queue.len() > most || queue.len() > 1 && self.inflight.bytes() + bytes > most_bytes {
            let Some(last) = queue.pop_back() else { break };
            bytes -= last.message.size();
            beyond.push(last);
        }
        self.set_queue(queue);
        beyond
    }

    /// Removes the marks from the queue.
    pub(in crate::session) fn remove_cuts(&mut self) {
        let mut queue = std::mem::take(&mut self.queue);
        queue.retain(|queued| queued.message.source != Source::Cut);
        self.set_queue(queue);
    }
}

/// Appends the records of a session for another node, without the messages behind marks.
pub(in crate::session) fn put_state(
    entry: &mut Entry,
    session: &Session,
    received: &[u16],
    now: Duration,
) {
    let of = SessionId(session.number);
    let will = session.will.as_deref().filter(|will| will.is_in_time(now));
    put_moving(entry, session, will);
    for packet in received {
        entry.push(&Record::Incoming { session: of, packet: *packet });
    }
    let mut next = 0;
    let mut put = |held: Option<(&Message, &How)>, phase| {
        next += 1;
        let (mut options, mut identifiers) = (0, Vec::new());
        if let Some((message, how)) = held {
            put_message(entry, next, message);
            options = flags(how.qos, how.retain);
            how.identifiers.write(&mut identifiers);
        }
        entry.push(&Record::Queue {
            session: of,
            delivery: DeliveryId(next),
            message: MessageId(next),
            options,
            properties: &identifiers,
            phase,
        });
    };
    let mut inflight: Vec<_> = session.inflight.iter().collect();
    inflight.sort_unstable_by_key(|(_, entry)| entry.sequence);
    for (id, own) in inflight {
        match &own.message {
            Some((message, how)) => put(Some((message, how)), Phase::Sent(id.get())),
            None => put(None, Phase::Received(id.get())),
        }
    }
    let divided = Divided::of(&session.queue);
    for (own, is_behind) in session.queue.iter().zip(divided.are_behind) {
        if is_behind == Some(false) {
            put(Some((&own.message, &own.how)), Phase::Queued);
        }
    }
}
