//! QoS 2 messages from a client: registered until the client releases their packet identifiers.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use phalanx_mqtt::{PacketId, Reason, Version};
use phalanx_store::{Record, SessionId};

use crate::durable::Lsn;
use crate::model::client_key::ClientKey;
use crate::model::qos2::Qos2InFlight;
use crate::session::partition::Sessions;

/// For each QoS 2 message, whether it is new; and the messages' shared state, if a later connection may retransmit them.
pub(crate) type Qos2Begun = (Vec<bool>, Option<Arc<Qos2InFlight>>);

impl Sessions {
    /// Registers QoS 2 messages received on connection `connection_id`. Returns for each whether it is new.
    ///
    /// # Errors
    /// A reason code if the client exceeds its receive maximum, or if another connection of the client is still routing
    /// one of the messages. Then no message is registered.
    pub(in crate::session) fn begin(
        &mut self,
        key: ClientKey,
        connection_id: u64,
        ids: &[PacketId],
    ) -> Result<Qos2Begun, Reason> {
        let most = usize::from(self.limits.receive_maximum);
        let session = self.get(key).filter(|session| session.is_on(connection_id));
        let Some(session) = session else { return Err(Reason::SESSION_TAKEN_OVER) };
        // CONNACK of MQTT 3.1.1 does not announce a receive maximum.
        let is_told =
            session.attachment.as_ref().is_none_or(|attachment| attachment.version == Version::V5);
        let most = if is_told { most } else { PacketId::MAX.get().into() };
        let is_open = |id: &PacketId| {
            let begun = session.received.get(id).and_then(Option::as_ref);
            begun.is_some_and(|begun| !begun.is_routed() && !begun.has_refused(*id))
        };
        if ids.iter().any(is_open) {
            return Err(Reason::SERVER_BUSY);
        }
        let persistent = session.expiry > 0 || session.durable_id() != 0;
        let own = persistent.then(|| Arc::new(Qos2InFlight::default()));
        let mut begin = |id: &PacketId| match session.received.entry(*id) {
            // The message was refused, but the connection ended before it could abandon it.
            Entry::Occupied(mut place)
                if place.get().as_ref().is_some_and(|begun| begun.has_refused(*id)) =>
            {
                place.insert(own.clone());
                true
            }
            Entry::Occupied(_) => false,
            Entry::Vacant(place) => {
                place.insert(own.clone());
                true
            }
        };
        let begun: Vec<_> = ids.iter().map(&mut begin).collect();
        let earlier = session.earlier().map_or(0, |earlier| {
            // These messages count for this connection now.
            ids.iter().for_each(|id| _ = earlier.received.remove(id));
            earlier.received.len()
        });
        if session.received.len() - earlier <= most {
            return Ok((begun, own));
        }
        for (id, _) in ids.iter().zip(&begun).filter(|(_, new)| **new) {
            session.received.remove(*id);
        }
        Err(Reason::RECEIVE_MAXIMUM_EXCEEDED)
    }

    /// Forgets all QoS 2 messages of a client that has lost its state.
    pub(in crate::session) fn forget_received(
        &mut self,
        key: ClientKey,
        connection_id: u64,
    ) -> Lsn {
        let session = self.get(key).filter(|session| session.is_on(connection_id));
        let mut ids: Vec<_> =
            session.map_or_else(Vec::new, |session| session.received.keys().copied().collect());
        // Sorted, so that simulations are reproducible.
        ids.sort_unstable();
        self.release(key, connection_id, &ids).1
    }

    /// Forgets QoS 2 messages that the client will not send again. Returns for each whether it was registered.
    pub(in crate::session) fn release(
        &mut self,
        key: ClientKey,
        connection_id: u64,
        ids: &[PacketId],
    ) -> (Vec<bool>, Lsn) {
        let mut records = std::mem::take(&mut self.records);
        let session = self.get(key).filter(|session| session.is_on(connection_id));
        let Some(session) = session else {
            self.records = records;
            return (vec![false; ids.len()], Lsn::default());
        };
        if let Some(earlier) = session.earlier() {
            ids.iter().for_each(|id| _ = earlier.received.remove(id));
        }
        let durable_id = session.durable_id();
        let mut release = |id: &PacketId| {
            let is_known = session.received.remove(*id).is_some();
            if is_known && durable_id != 0 {
                let (session, packet) = (SessionId(durable_id), id.get());
                records.push(&Record::IncomingDone { session, packet });
            }
            is_known
        };
        let known = ids.iter().map(&mut release).collect();
        self.records = records;
        (known, self.append_of(durable_id != 0))
    }
}
