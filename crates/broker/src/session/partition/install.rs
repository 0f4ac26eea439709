//! Adds sessions of another node. They get new IDs, because the IDs of the other node's journal are in use here.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use phalanx_mqtt::{PacketId, RetainHandling};
use phalanx_store::{DeliveryId, Entry, MessageId, Record, SessionId};

use crate::access::Identity;
use crate::config::MAX_DURABLE_PACKET;
use crate::durable::recovery::{RecoveredSession, Renumbered};
use crate::durable::{Clocks, flags, put_message, put_session};
use crate::events::drops::{DropReason, Dropped};
use crate::limits::places::Place;
use crate::model::moving::Moving;
use crate::model::session::{Session, SessionLoad};
use crate::requests::{FirstIds, Subscriber, SubscriptionRequest};
use crate::session::partition::Sessions;
use crate::session::state::effects::Effects;

/// A session of another node, with its subscriptions.
pub(crate) struct Arriving {
    pub(crate) session: RecoveredSession,
    pub(crate) requests: Vec<SubscriptionRequest>,
    /// The place reserved for a session that moves here. It ends when the session takes it.
    pub(crate) place: Option<Place>,
}

/// Whether a session was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Added {
    Yes,
    /// The session was added, although this node had as many sessions as `max-sessions` allows.
    BeyondLimit,
    /// The client has a session here.
    Exists,
    /// Another user has a session here with the same client identifier. The messages of the new one are counted as
    /// dropped.
    OfAnotherUser,
}

/// A value that an operation takes when it begins. An operation that is refused leaves it in place.
pub(crate) type Offered<T> = Arc<Mutex<Option<T>>>;

/// Size in bytes from which the records of a session continue in another entry, because the size of entries is limited.
/// After a crash between two entries, the session lacks its last messages.
pub(super) const MAX_ENTRY_BYTES: usize = Entry::MAX_BYTES / 2 - (1 << 20);

const _: () = assert!(MAX_ENTRY_BYTES + MAX_DURABLE_PACKET + (1 << 20) <= Entry::MAX_BYTES);

/// An added session: how it was added, the session as a subscriber, its subscriptions, and the effects of adding it.
type Installed = (Added, Subscriber, Vec<SubscriptionRequest>, Effects);

impl Sessions {
    /// Adds a session, unless its client has one.
    pub(in crate::session) fn install(
        &mut self,
        arriving: Arriving,
        first: FirstIds,
        now: Duration,
    ) -> Result<Installed, Added> {
        let Arriving { mut session, mut requests, place } = arriving;
        let mut effects = Effects::default();
        let existing = self.names.get(&session.client_id).copied();
        self.limits.refresh();
        let is_full = self.counters.places.is_full(self.limits.sessions);
        // A session that moves here has reserved its place. An adopted one is added in any case, because no other node has it.
        let has_place = existing.is_some() || matches!(session.moving, Moving::Arriving { .. });
        let added = if is_full && !has_place { Added::BeyondLimit } else { Added::Yes };
        // Whether the copy here is outdated: another node has had the session since, or the session never arrived here.
        let is_earlier = |copy: &mut Session| match copy.moving {
            Moving::Given(_) => copy.moves < session.moves,
            Moving::Arriving { .. } => true,
            _ => false,
        };
        if let Some(slot) = existing
            && self.at(slot).is_some_and(|copy| copy.user == session.user && is_earlier(copy))
        {
            self.remove(slot, None, &mut effects);
        } else if let Some(slot) = existing {
            if self.at(slot).is_none_or(|copy| copy.user == session.user) {
                return Err(Added::Exists);
            }
            let (client, user) = (Some(&*session.client_id), session.user.as_deref());
            let dropped = || Dropped { client, user, ..Dropped::default() };
            let count = session.messages().count();
            self.counters.drops.add(DropReason::SessionEnded, count, dropped);
            return Err(Added::OfAnotherUser);
        }
        session.number = self.wal.allocate_session();
        let mut records = std::mem::take(&mut self.records);
        let pending_wills = std::mem::take(&mut session.pending_wills);
        let mut ids = (first.message.., first.delivery..);
        let has_messages = session.deliveries() > 0;
        let queued = session.renumber(&mut ids);
        let received = session.received().to_vec();
        if let Moving::Arriving { message, delivery, .. } = &mut session.moving {
            (*message, *delivery) = (first.message, first.delivery);
        }
        let session = session.into_session();
        let id = SessionId(session.number);
        put_session(&mut records, &session, pending_wills.iter());
        let mut append = |records: &mut Entry| {
            self.wal.append(records);
        };
        let of_session = (id, &requests[..], &received[..], &queued[..]);
        put_all(&mut records, of_session, MAX_ENTRY_BYTES, &mut append);
        self.records = records;
        let identity = Identity { user: session.user.clone(), client: session.client_id.clone() };
        self.load.change(SessionLoad::default(), session.load());
        self.load.publish();
        for (key, size) in session.keys.iter() {
            self.counters.subscribed(&session.client_id, (key, *size));
        }
        let (durable_id, adoptions) = (session.durable_id(), session.adoptions.clone());
        let moving = session.moving.clone();
        let slot = self.add(session);
        drop(place);
        let key = self.key(slot);
        if let Some(peers) = &self.counters.peers {
            match moving {
                Moving::Given(token) => peers.moves.add_given(identity.clone(), token, now),
                Moving::Arriving { token, .. } => peers.moves.begin(&token, key),
                _ => (),
            }
        }
        for will in pending_wills {
            effects.wills.extend(self.enqueue_will_for(key, Some(will)));
        }
        self.resume_session(key, now, Clocks::read());
        self.append();
        // The client has already received the retained messages.
        requests.iter_mut().for_each(|request| {
            request.options.retain_handling = RetainHandling::DoNotSend;
        });
        let subscriber = Subscriber { key, durable_id, identity, adoptions, has_messages };
        Ok((added, subscriber, requests, effects))
    }
}

/// Adds the records of a session's subscriptions, packet identifiers and messages. Passes each entry to `append` when it
/// reaches `most` bytes.
pub(super) fn put_all(
    records: &mut Entry,
    (session, requests, received, queued): (
        SessionId,
        &[SubscriptionRequest],
        &[PacketId],
        &[Renumbered],
    ),
    most: usize,
    append: &mut dyn FnMut(&mut Entry),
) {
    let mut end = |records: &mut Entry| {
        if records.len() >= most {
            append(records);
        }
    };
    for request in requests {
        records.push(&Record::Subscribe {
            session,
            filter: &request.key,
            options: request.options.to_byte(),
            identifier: request.identifier.map_or(0, std::num::NonZero::get),
        });
        end(records);
    }
    // Packet identifiers precede the messages, whose last ones a crash may lose. Without an identifier, a message would
    // be accepted twice.
    for packet in received {
        records.push(&Record::Incoming { session, packet: packet.get() });
    }
    let mut identifiers = Vec::new();
    for Renumbered { message, is_new, how, delivery, phase } in queued {
        let number = message.as_ref().map_or(0, |message| message.number());
        if let Some(message) = message.as_ref().filter(|_| *is_new) {
            put_message(records, number, message);
        }
        identifiers.clear();
        how.identifiers.write(&mut identifiers);
        records.push(&Record::Queue {
            session,
            delivery: DeliveryId(*delivery),
            message: MessageId(number),
            options: flags(how.qos, how.retain),
            properties: &identifiers,
            phase: *phase,
        });
        end(records);
    }
}

#[cfg(test)]
mod tests {
    use phalanx_mqtt::{Properties, QoS};
    use phalanx_store::Phase;

    use super::*;
    use crate::model::delivery::How;
    use crate::model::message::{Message, StoredMessage};

    #[test]
    fn a_session_with_many_messages_has_several_entries() {
        let (payload, properties) = (&[7; 1000], Properties::NONE);
        let stored =
            StoredMessage { topic: "t", payload, properties, qos: QoS::AtLeastOnce, retain: false };
        let queued: Vec<_> = (1..=10)
            .map(|delivery| Renumbered {
                message: Some(Arc::new(Message::from_stored(delivery, &stored, None))),
                is_new: true,
                how: How::default(),
                delivery,
                phase: Phase::Queued,
            })
            .collect();
        let (mut records, mut entries) = (Entry::new(), Vec::new());
        let mut append = |records: &mut Entry| entries.push(std::mem::take(records));
        put_all(&mut records, (SessionId(1), &[], &[PacketId::MIN], &queued), 3000, &mut append);
        entries.push(records);
        let is_incoming = |record| matches!(record, Record::Incoming { packet: 1, .. });
        assert!(entries[0].records().any(is_incoming), "{:?}", entries[0]);
        assert!(entries.iter().all(|entry| entry.len() < 3000 + 1100), "{entries:?}");
        let records = entries.iter().flat_map(Entry::records);
        let queued = records.filter_map(|record| match record {
            Record::Queue { delivery, message, .. } => Some((delivery.0, message.0)),
            _ => None,
        });
        assert!(queued.eq((1..=10).map(|number| (number, number))));
    }
}
