//! Takes the messages from the session for a lost node. The node that has adopted its sessions gets them.

use phalanx_mqtt::{PacketId, QoS};
use phalanx_store::{DeliveryId, Record, SessionId};

use crate::access::ADOPTED_CLIENTS;
use crate::events::drops::DropReason;
use crate::model::client_key::ClientKey;
use crate::model::delivery::How;
use crate::model::inflight::Inflight;
use crate::model::session::Queued;
use crate::requests::Handed;
use crate::session::partition::Sessions;

/// Messages taken from a session.
pub(crate) struct TakenMessages {
    pub(crate) key: ClientKey,
    /// The session's ID in the journal, and the keys of its subscriptions.
    pub(crate) number: u64,
    pub(crate) keys: Vec<Box<str>>,
    pub(crate) messages: Vec<Handed>,
    /// Whether the session has no more.
    pub(crate) are_all: bool,
}

impl Sessions {
    /// Detaches a session, and takes its messages in order: all in flight, and up to `most` queued ones. Discards QoS 2
    /// messages in flight that the client has received according to `received`, and records this. `None` if there is no
    /// such session.
    pub(in crate::session) fn take_messages(
        &mut self,
        client: &str,
        received: &[PacketId],
        most: usize,
    ) -> Option<TakenMessages> {
        let slot = self.names.get(client).copied()?;
        let (key, drops) = (self.key(slot), self.counters.drops.clone());
        let session = self.at(slot)?;
        let before = session.load();
        session.detach(&drops);
        session.node_capacity.as_ref().inspect(|capacity| capacity.open());
        if !client.starts_with(ADOPTED_CLIENTS) {
            // The session for a lost node ends with its last message, so it must not expire before. The session of an
            // awaited handover keeps its timer.
            session.ends = None;
        }
        let mut ids: Vec<_> =
            session.inflight.iter().map(|(id, inflight)| (inflight.sequence, id)).collect();
        ids.sort_unstable();
        let (mut messages, mut done) = (Vec::new(), Vec::new());
        for (_, id) in ids {
            let Some(Inflight { message, number, .. }) = session.inflight.remove(id) else {
                continue;
            };
            let is_wanted = |how: &How| how.qos != QoS::ExactlyOnce || !received.contains(&id);
            match message.filter(|(_, how)| is_wanted(how)) {
                Some((message, how)) => messages.push(Handed { message, how, number }),
                None => done.push(number),
            }
        }
        for _ in 0..most {
            let Some(Queued { message, how, number }) = session.pop_queued() else { break };
            match number {
                // A QoS 0 message.
                0 => drops.add(DropReason::Offline, 1, || session.dropped_message(&message)),
                _ => messages.push(Handed { message, how, number }),
            }
        }
        let taken = TakenMessages {
            key,
            number: session.number,
            keys: session.keys.keys().cloned().collect(),
            messages,
            are_all: session.queue.is_empty(),
        };
        let (after, number) = (session.load(), session.number);
        for delivery in done.into_iter().filter(|delivery| *delivery != 0) {
            let (session, delivery) = (SessionId(number), DeliveryId(delivery));
            self.records.push(&Record::Done { session, delivery });
        }
        self.append();
        self.load.change(before, after);
        self.load.publish();
        self.watch(key);
        Some(taken)
    }

    /// The key of a client's session, if the router knows it.
    pub(in crate::session) fn routed(&mut self, client: &str) -> Option<ClientKey> {
        let slot = self.names.get(client).copied()?;
        self.at(slot)?.routed.then(|| self.key(slot))
    }

    /// The packet identifiers of the QoS 2 messages that a client has sent and not released.
    pub(in crate::session) fn received(&mut self, client: &str) -> Vec<PacketId> {
        let session = self.names.get(client).copied().and_then(|slot| self.at(slot));
        let mut ids: Vec<_> =
            session.map_or_else(Vec::new, |session| session.received.keys().copied().collect());
        ids.sort_unstable();
        ids
    }

    /// Like [`received`](Self::received), but `None` until the connection has ended and all messages of the client are
    /// routed.
    pub(in crate::session) fn received_finally(&mut self, client: &str) -> Option<Vec<PacketId>> {
        let session = self.names.get(client).copied().and_then(|slot| self.at(slot));
        let Some(session) = session else { return Some(Vec::new()) };
        let mut ids = Vec::new();
        for (id, begun) in session.received.iter() {
            match begun {
                Some(begun) if begun.has_refused(*id) => (),
                Some(begun) if !begun.is_routed() => return None,
                _ => ids.push(*id),
            }
        }
        ids.sort_unstable();
        session.attachment.is_none().then_some(ids)
    }
}
