//! Wills that the router has not accepted yet. Their records remain until it has, so a crash loses none, even if the
//! session ends meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::client_key::ClientKey;
use crate::model::message::Message;

/// A will to be published.
pub(crate) struct PendingWill {
    pub(crate) message: Message,
    /// The ID of the will, if its session is persistent.
    pub(crate) id: Option<WillId>,
}

/// Identifies a will of a persistent session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WillId {
    pub(in crate::session) session: u64,
    number: u64,
}

/// The pending wills of persistent sessions.
#[derive(Default)]
pub(crate) struct PendingWills {
    last: u64,
    /// Wills up to this number were recovered: they were pending when the broker stopped.
    old: u64,
    /// The wills, and the keys of their sessions, which may have ended.
    pub(in crate::session) wills: BTreeMap<WillId, (Option<ClientKey>, Message)>,
    /// Ended sessions, with their clients, whose end will be recorded after their last pending will.
    pub(in crate::session) over: BTreeMap<u64, Arc<str>>,
}

impl PendingWills {
    /// The pending wills of one session.
    pub(crate) fn of(&self, session: u64) -> impl Iterator<Item = &Message> {
        let [first, last] = [0, u64::MAX].map(|number| WillId { session, number });
        self.wills.range(first..=last).map(|(_, (_, message))| message)
    }

    pub(in crate::session) fn add(
        &mut self,
        session: u64,
        key: Option<ClientKey>,
        message: Message,
    ) -> WillId {
        self.last += 1;
        let id = WillId { session, number: self.last };
        self.wills.insert(id, (key, message));
        id
    }

    /// Adds a recovered will.
    pub(in crate::session) fn restore(
        &mut self,
        session: u64,
        key: Option<ClientKey>,
        message: Message,
    ) {
        self.old = self.add(session, key, message).number;
    }

    /// The recovered wills, to be published.
    pub(in crate::session) fn restored(&self) -> Vec<PendingWill> {
        let old = self.wills.iter().filter(|(id, _)| id.number <= self.old);
        old.map(|(id, (_, will))| PendingWill { message: will.again(), id: Some(*id) }).collect()
    }
}
