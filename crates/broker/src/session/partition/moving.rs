//! The move of a session from one node of the cluster to another: see `cluster/moving/mod.rs`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use phalanx_mqtt::{PacketId, QoS};
use phalanx_store::{DeliveryId, Entry, Record, SessionId};

use crate::access::Identity;
use crate::durable::recovery::RecoveredSession;
use crate::durable::{Lsn, put_moving};
use crate::events::drops::DropReason;
use crate::limits::places::Place;
use crate::model::client_key::ClientKey;
use crate::model::moving::{Holding, Marks, Moving};
use crate::model::qos2::Qos2InFlight;
use crate::model::session::Session;
use crate::session::partition::Sessions;
use crate::session::partition::close::Closing;
use crate::session::partition::install::{MAX_ENTRY_BYTES, put_all};
use crate::session::state::effects::Effects;
use crate::session::state::moving::{Divided, put_state};

/// A session that leaves, without its subscriptions.
pub(crate) struct Left {
    pub(crate) key: ClientKey,
    /// The ID of the session, its record, and the keys of its subscriptions.
    pub(crate) number: u64,
    pub(crate) record: Entry,
    pub(crate) keys: Vec<Box<str>>,
}

/// Why a session does not move now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotNow {
    /// Messages are still being processed, or another move is under way.
    Busy,
    /// The session leaves, and its client was disconnected, but messages of the client are still being routed.
    Routing,
    /// The session cannot move, does not exist, or the move has ended.
    Over,
    /// The new node has as many sessions as `max-sessions` allows.
    Full,
    /// The move has ended because the set of nodes changed. Another move may succeed.
    Again,
}

impl Sessions {
    /// The kind of this node's copy of a client's session that outlives its connection, and the number of its moves.
    pub(in crate::session) fn holding(
        &mut self,
        owner: &Identity,
        now: Duration,
    ) -> Option<(Holding, u32)> {
        let session = self.names.get(&owner.client).copied().and_then(|slot| self.at(slot))?;
        let lasts = session.expiry > 0 && !session.has_expired(now);
        let is_its = session.user == owner.user && lasts;
        is_its.then(|| (session.moving.holding(), session.moves))
    }

    /// The slot of the session of a client.
    fn slot_of(&mut self, owner: &Identity) -> Option<u32> {
        let slot = self.names.get(&owner.client).copied()?;
        self.at(slot).is_some_and(|session| session.user == owner.user).then_some(slot)
    }

    /// Reserves a place for a session that is to move here, so that this node does not exceed `max-sessions`. Returns `None`
    /// if the session has a place, because this node has a copy of it.
    pub(in crate::session) fn reserve(
        &mut self,
        owner: &Identity,
    ) -> Result<Option<Place>, NotNow> {
        self.limits.refresh();
        match self.names.get(&owner.client).copied().and_then(|slot| self.at(slot)) {
            // Another user has a session with the client identifier, so the client would be refused after the move.
            Some(session) if session.user != owner.user => Err(NotNow::Over),
            Some(_) => Ok(None),
            None => {
                let place = self.counters.places.reserve(self.limits.sessions);
                place.map(Some).ok_or(NotNow::Full)
            }
        }
    }

    /// Lets a session leave, and disconnects its client. `leaves` is whether an earlier call for this move has done so: if
    /// the session is not leaving then, the client has come back, and the session stays. The caller applies the effects even
    /// if there is an error.
    pub(in crate::session) fn leave(
        &mut self,
        owner: &Identity,
        (token, leaves): (&Arc<str>, bool),
        now: Duration,
    ) -> (Result<Left, NotNow>, Effects) {
        let (peers, is_behind) = (self.counters.peers.clone(), self.wal.is_behind());
        let mut effects = Effects::default();
        let Some(slot) = self.slot_of(owner) else { return (Err(NotNow::Over), effects) };
        let key = self.key(slot);
        let Some(session) = self.at(slot) else { return (Err(NotNow::Over), effects) };
        let lasts = session.expiry > 0 && !session.has_expired(now) && session.durable_id() != 0;
        if !lasts {
            return (Err(NotNow::Over), effects);
        }
        if leaves && !session.moving.is_leaving(token) {
            return (Err(NotNow::Over), effects);
        }
        // Each message of a shared subscription reaches one member, and both copies would be members.
        if session.shared > 0 {
            return (Err(NotNow::Over), effects);
        }
        let adoptions = session.adoptions.clone().unwrap_or_default();
        let is_free = match &session.moving {
            Moving::No => true,
            Moving::Leaving { token: own, .. } => own == token,
            _ => false,
        };
        if !is_free
            || is_behind
            || peers.is_some_and(|peers| peers.handovers.is_awaited(&adoptions))
        {
            return (Err(NotNow::Busy), effects);
        }
        if !session.moving.is_leaving(token) {
            session.moving = Moving::Leaving { token: token.clone(), marks: Marks::default() };
        }
        if let Some(number) = session.attachment.as_ref().map(|attachment| attachment.number) {
            effects = self.close(key, number, Closing { will: true, expiry: None }, now);
            self.append();
        }
        let Some(session) = self.at(slot) else { return (Err(NotNow::Over), effects) };
        // A message of the ended connection is still being routed. Messages that the client publishes at the other node must
        // not overtake it.
        let is_open = |(id, begun): (&PacketId, &Option<Arc<Qos2InFlight>>)| {
            begun
                .as_ref()
                .is_some_and(|in_flight| !in_flight.is_routed() && !in_flight.has_refused(*id))
        };
        if session.received.iter().any(is_open) {
            return (Err(NotNow::Routing), effects);
        }
        let mut record = Entry::new();
        put_moving(&mut record, session, None);
        let keys = session.keys.keys().cloned().collect();
        (Ok(Left { key, number: session.number, record, keys }), effects)
    }

    /// Gives the session of a client to another node, if the marks of all these nodes have arrived. Returns the state ahead
    /// of the marks, and the LSN that has to be durable before the state is sent.
    pub(in crate::session) fn give(
        &mut self,
        owner: &Identity,
        token: &str,
        (nodes, now): (&[String], Duration),
    ) -> Result<(Entry, Lsn), NotNow> {
        let drops = self.counters.drops.clone();
        let slot = self.slot_of(owner).ok_or(NotNow::Over)?;
        let session = self.at(slot).filter(|session| session.moving.is_leaving(token));
        let session = session.ok_or(NotNow::Over)?;
        let divided = Divided::of(&session.queue);
        if !divided.is_by(nodes) {
            return Err(NotNow::Busy);
        }
        let is_accepted = |(id, begun): &(&PacketId, &Option<Arc<Qos2InFlight>>)| {
            begun.as_ref().is_none_or(|begun| !begun.has_refused(**id))
        };
        let received = session.received.iter().filter(is_accepted).map(|(id, _)| id.get());
        let mut received: Vec<_> = received.collect();
        received.sort_unstable();
        let before = session.load();
        // QoS 0 messages do not survive the connection.
        let mut places = divided.are_behind.iter();
        let mut lost = Vec::new();
        let mut queue = std::mem::take(&mut session.queue);
        queue.retain(|queued| {
            let is_behind = places.next().copied().flatten();
            let stays = queued.how.qos != QoS::AtMostOnce || is_behind == Some(true);
            if !stays {
                lost.push(queued.message.clone());
            }
            stays
        });
        session.set_queue(queue);
        for message in lost {
            drops.add(DropReason::Offline, 1, || session.dropped_message(&message));
        }
        let mut entry = Entry::new();
        put_state(&mut entry, session, &received, now);
        if let Some(will) = &mut session.will
            && will.is_in_time(now)
        {
            // The new node publishes the will if the client does not come.
            will.due = None;
        }
        session.moving = Moving::Given(token.into());
        let after = session.load();
        self.load.change(before, after);
        self.load.publish();
        self.counters.places.set_copy(true);
        let key = self.key(slot);
        self.watch(key);
        self.put(key);
        if let Some(peers) = &self.counters.peers {
            peers.moves.add_given(owner.clone(), token.into(), now);
            peers.claims.withdraw(owner);
        }
        Ok((entry, self.append()))
    }

    /// Ends the move with this token: the session stays at this node, or belongs to it again. Returns whether there was such
    /// a move.
    pub(in crate::session) fn stay(
        &mut self,
        owner: &Identity,
        token: &str,
        now: Duration,
    ) -> bool {
        let Some(slot) = self.slot_of(owner) else { return false };
        let key = self.key(slot);
        let Some(session) = self.at(slot) else { return false };
        let was_given = matches!(session.moving, Moving::Given(_));
        let (Moving::Leaving { token: own, .. } | Moving::Given(own)) = &session.moving else {
            return false;
        };
        if **own != *token {
            return false;
        }
        let before = session.load();
        session.moving = Moving::No;
        session.remove_cuts();
        if was_given {
            session.begin_will_delay(now);
        }
        let after = session.load();
        self.load.change(before, after);
        self.load.publish();
        if let Some(peers) = &self.counters.peers {
            peers.moves.end(token);
            peers.moves.remove_given(owner);
        }
        if was_given {
            self.counters.places.set_copy(false);
            self.put(key);
            self.watch(key);
            self.append();
        }
        true
    }

    /// Removes a given session, if it has moved fewer times than the copy of another node. Returns whether it was removed.
    pub(in crate::session) fn drop_given(
        &mut self,
        owner: &Identity,
        moves: u32,
        effects: &mut Effects,
    ) -> bool {
        let Some(slot) = self.slot_of(owner) else { return false };
        let is_earlier = |session: &mut Session| {
            matches!(session.moving, Moving::Given(_)) && session.moves < moves
        };
        let is_dropped = self.at(slot).is_some_and(is_earlier);
        if is_dropped {
            self.remove(slot, None, effects);
            self.append();
        }
        is_dropped
    }

    /// Removes the copy of a session that is arriving by this move, unless it has arrived.
    pub(in crate::session) fn give_up(
        &mut self,
        owner: &Identity,
        token: &str,
        effects: &mut Effects,
    ) {
        let Some(slot) = self.slot_of(owner) else { return };
        let is_arriving = |own: &mut Session| match &own.moving {
            Moving::Arriving { token: own, .. } => **own == *token,
            _ => false,
        };
        if self.at(slot).is_some_and(is_arriving) {
            self.remove(slot, None, effects);
            self.append();
        }
    }

    /// Puts the holder's state in the place of the messages ahead of the nodes' marks, which the holder has. Returns the LSN
    /// from which on the session is this node's.
    ///
    /// # Errors
    /// If the marks of some of these nodes have not arrived. `offered` is unchanged then.
    pub(in crate::session) fn arrive(
        &mut self,
        owner: &Identity,
        token: &str,
        (offered, nodes): (&mut Option<RecoveredSession>, &[String]),
        now: Duration,
    ) -> Result<Lsn, NotNow> {
        let limits = (self.limits.queued_messages, self.limits.queued_bytes);
        let drops = self.counters.drops.clone();
        let slot = self.slot_of(owner).ok_or(NotNow::Over)?;
        let key = self.key(slot);
        let session = self.at(slot).ok_or(NotNow::Over)?;
        let first = match &session.moving {
            Moving::Arriving { token: own, message, delivery } if **own == *token => {
                (*message, *delivery)
            }
            _ => return Err(NotNow::Over),
        };
        let divided = Divided::of(&session.queue);
        // A node that has just joined may be missing in `nodes`, because the holder did not know it.
        let is_whole = divided.before.iter().all(|origin| divided.cuts.contains_key(origin));
        if !is_whole || !divided.is_by(nodes) {
            return Err(NotNow::Busy);
        }
        let mut left = offered.take().ok_or(NotNow::Over)?;
        let before = session.load();
        let (number, queue) = (session.number, std::mem::take(&mut session.queue));
        let mut records = std::mem::take(&mut self.records);
        let queued = left.renumber(&mut (first.0.., first.1..));
        let received = left.received().to_vec();
        let mut append = |records: &mut Entry| {
            self.wal.append(records);
        };
        let of_session = (SessionId(number), &[][..], &received[..], &queued[..]);
        put_all(&mut records, of_session, MAX_ENTRY_BYTES, &mut append);
        let mut behind = VecDeque::new();
        for (own, is_behind) in queue.into_iter().zip(divided.are_behind) {
            match is_behind {
                Some(true) => behind.push_back(own),
                Some(false) if own.number != 0 => {
                    let (session, delivery) = (SessionId(number), DeliveryId(own.number));
                    records.push(&Record::Done { session, delivery });
                }
                _ => (),
            }
        }
        self.records = records;
        let from = left.into_session();
        let Some(session) = self.at(slot) else { unreachable!("it was there") };
        let mut queue = from.queue;
        queue.append(&mut behind);
        session.inflight = from.inflight;
        let beyond = session.set_limited_queue(queue, limits);
        (session.received, session.sweep) = (from.received, Duration::ZERO);
        session.moves = from.moves + 1;
        session.will = from.will;
        session.begin_will_delay(now);
        for own in &beyond {
            drops.add(DropReason::QueueFull, 1, || session.dropped_message(&own.message));
        }
        session.moving = Moving::Arrived(token.into());
        let after = session.load();
        self.load.change(before, after);
        self.load.publish();
        self.counters.places.set_copy(false);
        for own in beyond {
            let (session, delivery) = (SessionId(number), DeliveryId(own.number));
            self.records.push(&Record::Done { session, delivery });
        }
        self.watch(key);
        // The last record, because it makes the session this node's.
        self.put(key);
        if let Some(peers) = &self.counters.peers {
            peers.moves.end(token);
        }
        Ok(self.append())
    }

    /// Records that the session which has arrived is on disk. From now on its client may use it.
    pub(in crate::session) fn arrived(&mut self, owner: &Identity, token: &str) -> bool {
        let Some(slot) = self.slot_of(owner) else { return false };
        let Some(session) = self.at(slot) else { return false };
        let is_it = matches!(&session.moving, Moving::Arrived(own) if **own == *token);
        if is_it {
            session.moving = Moving::No;
        }
        is_it
    }
}
