//! Wills on their way: what is kept of each stays until it is with the router, so that a crash in between loses none,
//! whatever becomes of its session meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use phalanx_store::{Record, SessionId};

use crate::message::Message;
use crate::session::key::ClientKey;
use crate::session::table::Sessions;

/// A will that is to be published.
pub(crate) struct Parting {
    pub(crate) message: Message,
    /// Whose it is, if that is kept.
    pub(crate) of: Option<Of>,
}

/// Which will of which session that is kept, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Of {
    session: u64,
    number: u64,
}

/// Wills on their way of sessions that are kept.
#[derive(Default)]
pub(crate) struct Partings {
    last: u64,
    /// Those up to this one were on their way when the broker before ended.
    old: u64,
    /// With their sessions' places, which they may have left.
    wills: BTreeMap<Of, (Option<ClientKey>, Message)>,
    /// Sessions that are over, but for these.
    over: BTreeSet<u64>,
}

impl Partings {
    /// Those of one session.
    pub(crate) fn of(&self, session: u64) -> impl Iterator<Item = &Message> {
        let [first, last] = [0, u64::MAX].map(|number| Of { session, number });
        self.wills.range(first..=last).map(|(_, (_, message))| message)
    }

    fn add(&mut self, session: u64, key: Option<ClientKey>, message: Message) -> Of {
        self.last += 1;
        let of = Of { session, number: self.last };
        self.wills.insert(of, (key, message));
        of
    }

    /// One that was on its way when the broker before ended. Its session is over if it has no place.
    pub(super) fn restore(&mut self, session: u64, key: Option<ClientKey>, message: Message) {
        self.old = self.add(session, key, message).number;
        if key.is_none() {
            self.over.insert(session);
        }
    }

    /// Those that were, to be published.
    pub(super) fn restored(&self) -> Vec<Parting> {
        let old = self.wills.iter().filter(|(of, _)| of.number <= self.old);
        old.map(|(of, (_, will))| Parting { message: will.again(), of: Some(*of) }).collect()
    }
}

impl Sessions {
    /// A will of the session at this place is to be published, if there is one.
    pub(super) fn part(&mut self, key: ClientKey, will: Option<Message>) -> Option<Parting> {
        let session = self.get(key).map_or(0, |session| session.number);
        will.map(|will| self.part_of(session, Some(key), will))
    }

    /// A will of the session that is kept by this number, if that is not 0, is to be published.
    pub(super) fn part_of(
        &mut self,
        session: u64,
        key: Option<ClientKey>,
        message: Message,
    ) -> Parting {
        let is_kept = session != 0;
        let of = is_kept.then(|| self.partings.add(session, key, message.again()));
        Parting { message, of }
    }

    /// The session that is kept by this number is over: that is noted, or will be with its last will.
    pub(super) fn end(&mut self, session: u64) {
        if self.partings.of(session).next().is_some() {
            self.partings.over.insert(session);
            return;
        }
        self.partings.over.remove(&session);
        self.ends = true;
        self.notes.push(&Record::SessionEnd { session: SessionId(session) });
    }

    /// Notes that a will is with the router.
    pub(super) fn parted(&mut self, of: Of) {
        let Some((key, _)) = self.partings.wills.remove(&of) else { return };
        match key {
            _ if self.partings.over.contains(&of.session) => self.end(of.session),
            Some(key) => self.put(key),
            None => (),
        }
        self.note();
    }

    /// The router does not take a will: what was kept of it stays, and maybe the next broker finds it there.
    pub(super) fn not_parted(&mut self, of: Of) {
        self.partings.wills.remove(&of);
        if self.partings.of(of.session).next().is_none() {
            self.partings.over.remove(&of.session);
        }
    }
}
