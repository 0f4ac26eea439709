//! Passes the wills of sessions to the router.

use std::sync::Arc;

use phalanx_store::{Record, SessionId};

use crate::model::client_key::ClientKey;
use crate::model::message::Message;
use crate::session::partition::Sessions;
use crate::session::state::pending_wills::{PendingWill, WillId};

impl Sessions {
    /// Enqueues a will of the session with this key, if there is one.
    pub(in crate::session) fn enqueue_will_for(
        &mut self,
        key: ClientKey,
        will: Option<Message>,
    ) -> Option<PendingWill> {
        let mut will = will?;
        let session = self.get(key);
        will.publisher = session.as_ref().map(|session| session.client_id.clone());
        let session = session.map_or(0, |session| session.number);
        Some(self.enqueue_will(session, Some(key), will))
    }

    /// Enqueues a will of the session with this ID; 0 for a session that is not persistent.
    pub(in crate::session) fn enqueue_will(
        &mut self,
        session: u64,
        key: Option<ClientKey>,
        message: Message,
    ) -> PendingWill {
        let is_durable = session != 0;
        let id = is_durable.then(|| self.pending_wills.add(session, key, message.again()));
        PendingWill { message, id }
    }

    /// Records the end of a client's session, immediately or after its last pending will.
    pub(in crate::session) fn end(&mut self, session: u64, client: Arc<str>) {
        if self.pending_wills.of(session).next().is_some() {
            self.pending_wills.over.insert(session, client);
            return;
        }
        self.pending_wills.over.remove(&session);
        self.ended.push(client);
        self.records.push(&Record::SessionEnd { session: SessionId(session) });
    }

    /// Records that the router accepted a will.
    pub(in crate::session) fn will_published(&mut self, id: WillId) {
        let Some((key, _)) = self.pending_wills.wills.remove(&id) else { return };
        match (self.pending_wills.over.get(&id.session), key) {
            (Some(client), _) => self.end(id.session, client.clone()),
            (None, Some(key)) => self.put(key),
            (None, None) => (),
        }
        self.append();
    }
}
