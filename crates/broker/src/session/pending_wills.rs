//! Wills on their way to the router. Their records remain until the router has accepted them, so a crash
//! loses none, even if the session ends meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use phalanx_store::{Record, SessionId};

use crate::message::Message;
use crate::session::key::ClientKey;
use crate::session::table::Sessions;

/// A will to be published.
pub(crate) struct PendingWill {
    pub(crate) message: Message,
    /// Its identity, if its session is persistent.
    pub(crate) id: Option<WillId>,
}

/// Identifies a will of a persistent session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WillId {
    session: u64,
    number: u64,
}

/// The pending wills of persistent sessions.
#[derive(Default)]
pub(crate) struct PendingWills {
    last: u64,
    /// Wills up to this number were pending when the previous broker stopped.
    old: u64,
    /// With the keys of their sessions, which may have ended.
    wills: BTreeMap<WillId, (Option<ClientKey>, Message)>,
    /// Ended sessions whose end is recorded after their last pending will.
    over: BTreeSet<u64>,
}

impl PendingWills {
    /// The pending wills of one session.
    pub(crate) fn of(&self, session: u64) -> impl Iterator<Item = &Message> {
        let [first, last] = [0, u64::MAX].map(|number| WillId { session, number });
        self.wills.range(first..=last).map(|(_, (_, message))| message)
    }

    fn add(&mut self, session: u64, key: Option<ClientKey>, message: Message) -> WillId {
        self.last += 1;
        let id = WillId { session, number: self.last };
        self.wills.insert(id, (key, message));
        id
    }

    /// Adds a recovered will. Its session has ended if it has no key.
    pub(super) fn restore(&mut self, session: u64, key: Option<ClientKey>, message: Message) {
        self.old = self.add(session, key, message).number;
        if key.is_none() {
            self.over.insert(session);
        }
    }

    /// The recovered wills, to be published.
    pub(super) fn restored(&self) -> Vec<PendingWill> {
        let old = self.wills.iter().filter(|(id, _)| id.number <= self.old);
        old.map(|(id, (_, will))| PendingWill { message: will.again(), id: Some(*id) }).collect()
    }
}

impl Sessions {
    /// Enqueues a will of the session with this key, if there is one.
    pub(super) fn enqueue_will_for(
        &mut self,
        key: ClientKey,
        will: Option<Message>,
    ) -> Option<PendingWill> {
        let session = self.get(key).map_or(0, |session| session.number);
        will.map(|will| self.enqueue_will(session, Some(key), will))
    }

    /// Enqueues a will of the session with this ID; 0 for a session that is not persistent.
    pub(super) fn enqueue_will(
        &mut self,
        session: u64,
        key: Option<ClientKey>,
        message: Message,
    ) -> PendingWill {
        let is_durable = session != 0;
        let id = is_durable.then(|| self.pending_wills.add(session, key, message.again()));
        PendingWill { message, id }
    }

    /// Records the end of a session, now or after its last pending will.
    pub(super) fn end(&mut self, session: u64) {
        if self.pending_wills.of(session).next().is_some() {
            self.pending_wills.over.insert(session);
            return;
        }
        self.pending_wills.over.remove(&session);
        self.ends = true;
        self.records.push(&Record::SessionEnd { session: SessionId(session) });
    }

    /// Records that the router accepted a will.
    pub(super) fn will_published(&mut self, id: WillId) {
        let Some((key, _)) = self.pending_wills.wills.remove(&id) else { return };
        match key {
            _ if self.pending_wills.over.contains(&id.session) => self.end(id.session),
            Some(key) => self.put(key),
            None => (),
        }
        self.append();
    }

    /// Forgets a will that the router refused. Its record remains, and the next broker may publish it.
    pub(super) fn will_rejected(&mut self, id: WillId) {
        self.pending_wills.wills.remove(&id);
        if self.pending_wills.of(id.session).next().is_none() {
            self.pending_wills.over.remove(&id.session);
        }
    }
}
