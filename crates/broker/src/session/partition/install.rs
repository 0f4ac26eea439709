//! Adds the sessions that another node kept: with new IDs, because those of the other node's journal are taken here.

use std::time::Duration;

use phalanx_mqtt::RetainHandling;
use phalanx_store::{DeliveryId, MessageId, Record, SessionId};

use crate::access::Identity;
use crate::durable::recovery::{RecoveredSession, Renumbered};
use crate::durable::{Clocks, flags, put_message, put_session};
use crate::model::session::SessionLoad;
use crate::requests::{FirstIds, Subscriber, SubscriptionRequest};
use crate::session::partition::Sessions;
use crate::session::state::effects::Effects;

/// A session that another node kept, with its subscriptions.
pub(crate) struct Arriving {
    pub(crate) session: RecoveredSession,
    pub(crate) requests: Vec<SubscriptionRequest>,
}

/// An added session as a subscriber, its subscriptions, and its effects.
type Installed = (Subscriber, Vec<SubscriptionRequest>, Effects);

impl Sessions {
    /// Adds a session, unless its client has one.
    pub(in crate::session) fn install(
        &mut self,
        arriving: Arriving,
        first: FirstIds,
        now: Duration,
    ) -> Option<Installed> {
        let Arriving { mut session, mut requests } = arriving;
        if self.names.contains_key(&session.client_id) {
            return None;
        }
        session.number = self.wal.session();
        let mut records = std::mem::take(&mut self.records);
        let pending_wills = std::mem::take(&mut session.pending_wills);
        let mut ids = (first.message.., first.delivery..);
        let queued = session.renumber(&mut ids);
        let received = session.received().to_vec();
        let session = session.into_session();
        let id = SessionId(session.number);
        put_session(&mut records, &session, pending_wills.iter());
        for request in &requests {
            records.push(&Record::Subscribe {
                session: id,
                filter: &request.key,
                options: request.options.to_byte(),
                identifier: request.identifier.map_or(0, std::num::NonZero::get),
                condition: "",
            });
        }
        for Renumbered { message, how, delivery, phase } in queued {
            let number = message.as_ref().map_or(0, |message| message.number());
            if let Some(message) = &message {
                put_message(&mut records, number, message);
            }
            records.push(&Record::Queue {
                session: id,
                delivery: DeliveryId(delivery),
                message: MessageId(number),
                options: flags(how.qos, how.retain),
                properties: &how.identifiers.to_bytes(),
                phase,
            });
        }
        for packet in received {
            records.push(&Record::Incoming { session: id, packet: packet.get() });
        }
        self.records = records;
        let identity = Identity { user: session.user.clone(), client: session.client_id.clone() };
        self.load.change(SessionLoad::default(), session.load());
        self.load.show();
        for key in &session.keys {
            self.counters.subscribed(&session.client_id, key);
        }
        let durable_id = session.durable_id();
        let slot = self.add(session);
        let key = self.key(slot);
        let mut effects = Effects::default();
        for will in pending_wills {
            effects.wills.extend(self.enqueue_will_for(key, Some(will)));
        }
        self.resume_session(key, now, Clocks::read());
        self.append();
        // The client has the retained messages.
        requests.iter_mut().for_each(|request| {
            request.options.retain_handling = RetainHandling::DoNotSend;
        });
        Some((Subscriber { key, durable_id, identity }, requests, effects))
    }
}
