//! Wills on their way: what is kept of each stays until it is with the router, so that a crash in between loses none,
//! whatever becomes of its session meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use phalanx_store::{Record, SessionId};

use crate::message::Message;
use crate::session::key::ClientKey;
use crate::session::table::Sessions;

/// A will that is to be published.
pub(crate) struct PendingWill {
    pub(crate) message: Message,
    /// Whose it is, if that is kept.
    pub(crate) id: Option<WillId>,
}

/// Which will of which session that is kept, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WillId {
    session: u64,
    number: u64,
}

/// Wills on their way of sessions that are kept.
#[derive(Default)]
pub(crate) struct PendingWills {
    last: u64,
    /// Those up to this one were on their way when the broker before ended.
    old: u64,
    /// With their sessions' places, which they may have left.
    wills: BTreeMap<WillId, (Option<ClientKey>, Message)>,
    /// Sessions that are over, but for these.
    over: BTreeSet<u64>,
}

impl PendingWills {
    /// Those of one session.
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

    /// One that was on its way when the broker before ended. Its session is over if it has no place.
    pub(super) fn restore(&mut self, session: u64, key: Option<ClientKey>, message: Message) {
        self.old = self.add(session, key, message).number;
        if key.is_none() {
            self.over.insert(session);
        }
    }

    /// Those that were, to be published.
    pub(super) fn restored(&self) -> Vec<PendingWill> {
        let old = self.wills.iter().filter(|(id, _)| id.number <= self.old);
        old.map(|(id, (_, will))| PendingWill { message: will.again(), id: Some(*id) }).collect()
    }
}

impl Sessions {
    /// A will of the session at this place is to be published, if there is one.
    pub(super) fn enqueue_will_for(
        &mut self,
        key: ClientKey,
        will: Option<Message>,
    ) -> Option<PendingWill> {
        let session = self.get(key).map_or(0, |session| session.number);
        will.map(|will| self.enqueue_will(session, Some(key), will))
    }

    /// A will of the session that is kept by this number, if that is not 0, is to be published.
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

    /// The session that is kept by this number is over: that is noted, or will be with its last will.
    pub(super) fn end(&mut self, session: u64) {
        if self.pending_wills.of(session).next().is_some() {
            self.pending_wills.over.insert(session);
            return;
        }
        self.pending_wills.over.remove(&session);
        self.ends = true;
        self.records.push(&Record::SessionEnd { session: SessionId(session) });
    }

    /// Notes that a will is with the router.
    pub(super) fn will_published(&mut self, id: WillId) {
        let Some((key, _)) = self.pending_wills.wills.remove(&id) else { return };
        match key {
            _ if self.pending_wills.over.contains(&id.session) => self.end(id.session),
            Some(key) => self.put(key),
            None => (),
        }
        self.append();
    }

    /// The router does not take a will: what was kept of it stays, and maybe the next broker finds it there.
    pub(super) fn will_rejected(&mut self, id: WillId) {
        self.pending_wills.wills.remove(&id);
        if self.pending_wills.of(id.session).next().is_none() {
            self.pending_wills.over.remove(&id.session);
        }
    }
}
