//! Adds the sessions that another node kept: with new IDs, because those of the other node's journal are taken here.

use std::time::Duration;

use phalanx::time::now;
use phalanx::{Call, sleep};
use phalanx_mqtt::RetainHandling;
use phalanx_store::{DeliveryId, MessageId, Record, SessionId};

use crate::access::Identity;
use crate::durable::recovery::{RecoveredSession, Renumbered};
use crate::durable::{Clocks, flags, put_message, put_session};
use crate::model::message::Message;
use crate::model::session::SessionLoad;
use crate::requests::{Answer, FirstIds, Item, Routes, Subscriber, SubscriptionRequest};
use crate::session::effects::Effects;
use crate::session::operations::{RETRY_DELAY, SessionStage};
use crate::session::table::Sessions;

/// A session that another node kept, with its subscriptions.
pub(crate) struct Arriving {
    pub(crate) session: RecoveredSession,
    pub(crate) requests: Vec<SubscriptionRequest>,
}

impl SessionStage {
    /// Adds a session, unless its client has one here. Returns whether it was added; `None` if the broker is busy, and
    /// whether it was is unknown.
    pub(crate) fn install(self, arriving: Arriving, routes: Routes) -> Call<Option<bool>> {
        let partition = self.own_partition();
        self.install_in(partition, arriving, routes)
    }

    fn install_in(self, partition: u16, arriving: Arriving, routes: Routes) -> Call<Option<bool>> {
        self.0.call_partition(partition.into(), move |sessions| async move {
            let client = arriving.session.client_id.clone();
            let claimed = sessions.with(|sessions| sessions.claim(&client));
            if claimed != partition {
                return self.install_in(claimed, arriving, routes).await.ok().flatten();
            }
            let first = loop {
                let count = arriving.session.deliveries() as u64;
                match routes.call(Item::Reserve(count)).await {
                    Ok(Answer::Reserved(first)) => break first,
                    _ => sleep(RETRY_DELAY).await,
                }
            };
            let installed = sessions.with(|sessions| {
                let installed = sessions.install(arriving, first, now());
                sessions.release_departed();
                installed
            });
            let Some((subscriber, requests, effects)) = installed else { return Some(false) };
            let key = subscriber.key;
            // The router may be full.
            while !requests.is_empty() {
                let (client, requests) = (subscriber.clone(), requests.clone());
                if routes.call(Item::Subscribe { client, requests }).await.is_ok() {
                    break;
                }
                sleep(RETRY_DELAY).await;
            }
            while routes.dispatch(Item::Presence { client: key, online: false }).is_err() {
                sleep(RETRY_DELAY).await;
            }
            self.apply_effects(&sessions, effects, routes).await;
            Some(true)
        })
    }

    /// Publishes wills of sessions that had ended when their node was lost.
    pub(crate) fn publish_wills(self, wills: Vec<Message>, routes: Routes) -> Call<()> {
        self.0.call_partition(0, move |sessions| async move {
            let effects = sessions.with(|sessions| {
                let wills = wills.into_iter().map(|will| sessions.enqueue_will(0, None, will));
                Effects { wills: wills.collect(), ..Effects::default() }
            });
            self.apply_effects(&sessions, effects, routes).await;
        })
    }
}

/// An added session as a subscriber, its subscriptions, and its effects.
type Installed = (Subscriber, Vec<SubscriptionRequest>, Effects);

impl Sessions {
    /// Adds a session, unless its client has one.
    fn install(&mut self, arriving: Arriving, first: FirstIds, now: Duration) -> Option<Installed> {
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
