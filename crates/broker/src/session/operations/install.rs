//! Adds sessions of another node, and their subscriptions to the router.

use phalanx::time::now;
use phalanx::{Call, sleep};

use crate::lock::lock;
use crate::model::message::Message;
use crate::model::session::Session;
use crate::peers::handovers::handover_of;
use crate::requests::{Answer, Item, Routes};
use crate::session::operations::{RETRY_DELAY, SessionStage};
use crate::session::partition::install::{Added, Arriving, Offered};
use crate::session::state::effects::Effects;

impl SessionStage {
    /// Adds a session, unless its client has one here. Returns whether it was added; `None` if the broker is busy. A
    /// session that is still offered afterwards was not added.
    pub(crate) fn install(self, offered: Offered<Arriving>, routes: Routes) -> Call<Option<Added>> {
        let partition = self.own_partition();
        self.install_in(partition, offered, routes)
    }

    fn install_in(
        self,
        partition: u16,
        offered: Offered<Arriving>,
        routes: Routes,
    ) -> Call<Option<Added>> {
        self.0.call_partition(partition.into(), move |sessions| async move {
            let arriving = lock(&offered).take()?;
            let first = loop {
                let count = arriving.session.ids();
                match routes.call(Item::Reserve(count)).await {
                    Ok(Answer::Reserved(first)) => break first,
                    _ => sleep(RETRY_DELAY).await,
                }
            };
            // Claims and adds in one step, because the directory's entry of a client without a session would be released.
            let installed = sessions.with(|sessions| {
                let claimed = sessions.claim(&arriving.session.client_id);
                if claimed != partition {
                    return Err(Box::new((claimed, arriving)));
                }
                let installed = sessions.install(arriving, first, now());
                sessions.release_departed();
                Ok(installed)
            });
            let (added, subscriber, requests, mut effects) = match installed {
                Ok(Ok(installed)) => installed,
                Ok(Err(existing)) => return Some(existing),
                Err(elsewhere) => {
                    let (claimed, arriving) = *elsewhere;
                    *lock(&offered) = Some(arriving);
                    return self.install_in(claimed, offered, routes).await.ok().flatten();
                }
            };
            let key = subscriber.key;
            // The router has to know the session of a handover, although it has no subscriptions.
            let is_handover = handover_of(&subscriber.identity.client).is_some();
            // Repeated while the router is full, unless the session ends meanwhile. A later end of the session reaches
            // the router after this call.
            while (!requests.is_empty() || is_handover)
                && sessions.with(|sessions| sessions.get(key).is_some())
            {
                let (client, requests) = (subscriber.clone(), requests.clone());
                if routes.call(Item::Subscribe { client, requests }).await.is_ok() {
                    break;
                }
                sleep(RETRY_DELAY).await;
            }
            // The client may have connected meanwhile.
            let is_there = |session: &mut Session| session.attachment.is_some();
            let online = sessions.with(|sessions| sessions.get(key).is_some_and(is_there));
            effects.present = Some((key, online));
            self.apply_effects(&sessions, effects, routes).await;
            Some(added)
        })
    }

    /// Publishes the wills of sessions that had already ended when their node was lost.
    pub(crate) fn publish_wills(self, offered: Offered<Vec<Message>>, routes: Routes) -> Call<()> {
        self.0.call_partition(0, move |sessions| async move {
            let wills = lock(&offered).take().unwrap_or_default();
            let effects = sessions.with(|sessions| {
                let wills = wills.into_iter().map(|will| sessions.enqueue_will(0, None, will));
                Effects { wills: wills.collect(), ..Effects::default() }
            });
            self.apply_effects(&sessions, effects, routes).await;
        })
    }
}
