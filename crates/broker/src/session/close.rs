//! A client leaves: what becomes of its will and of its session, now and later.

use std::sync::Arc;
use std::time::Duration;

use phalanx_store::{Record, SessionId};

use crate::durable::restored::RestoredSessions;
use crate::durable::{Clocks, PIECE, put_session};
use crate::session::key::ClientKey;
use crate::session::parting::Parting;
use crate::session::table::Sessions;

/// What a change of sessions has others do, once it is made.
#[derive(Default)]
pub(crate) struct After {
    /// Wills to publish.
    pub(crate) wills: Vec<Parting>,
    /// A client whose subscriptions are no more.
    pub(crate) forget: Vec<(ClientKey, Arc<[Box<str>]>)>,
    /// A client with shared subscriptions that has come or gone.
    pub(crate) present: Option<(ClientKey, bool)>,
}

/// How a connection has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Closing {
    /// The client has not said goodbye, or has asked for its will.
    pub(crate) will: bool,
    /// What it has said in the end of how long its session is to last.
    pub(crate) expiry: Option<u32>,
}

impl Sessions {
    /// The connection numbered `link` is no more.
    pub(crate) fn close(
        &mut self,
        key: ClientKey,
        link: u64,
        closing: Closing,
        now: Duration,
    ) -> After {
        let mut after = After::default();
        let drops = self.counters.drops.clone();
        let Some(session) = self.get(key) else { return after };
        if session.on(link).is_none() {
            return after;
        }
        session.unlink(&drops);
        if session.number != 0 {
            session.left = Clocks::read().to_day(now);
        }
        if let Some(expiry) = closing.expiry {
            session.expiry = expiry;
        }
        if !closing.will {
            session.will = None;
        }
        if session.expiry == 0 {
            let will = session.will.take().map(|will| will.message);
            self.remove(key.slot, will, &mut after);
            return after;
        }
        if session.expiry < u32::MAX {
            session.ends = Some(now + Duration::from_secs(session.expiry.into()));
        }
        // With its will, which is gone only when it is published.
        self.put(key);
        let Some(session) = self.get(key) else { return after };
        if let Some(will) = &mut session.will {
            // The end of the session is the latest.
            let due = now + will.delay;
            will.due = Some(session.ends.map_or(due, |ends| ends.min(due)));
        }
        let will = session.will.take_if(|will| will.delay.is_zero()).map(|will| will.message);
        if session.shared > 0 {
            after.present = Some((key, false));
        }
        after.wills.extend(self.part(key, will));
        self.watch(key);
        after
    }

    /// Looks after the sessions that there were when the program began: their connections have ended, and so may they
    /// have.
    pub(super) fn take_up(&mut self, now: Duration) -> After {
        let mut after = After::default();
        let Some(RestoredSessions { count, ended, .. }) = self.restored.take() else {
            return after;
        };
        for number in ended {
            // The others' ends are noted with their last wills.
            if self.partings.of(number).next().is_none() {
                self.notes.push(&Record::SessionEnd { session: SessionId(number) });
            }
        }
        after.wills.extend(self.partings.restored());
        let clocks = Clocks::read();
        for slot in 0..count {
            let key = self.key(slot);
            let session = self.get(key).filter(|session| session.link.is_none());
            let Some(session) = session.filter(|session| session.number != 0) else { continue };
            let was_there = session.left == 0;
            if was_there {
                session.left = clocks.to_day(now);
            }
            let left = session.left;
            let after_left = |seconds: u64| clocks.of_day(left.saturating_add(seconds));
            if session.expiry < u32::MAX {
                session.ends = Some(after_left(session.expiry.into()));
            }
            let ends = session.ends;
            if let Some(will) = &mut session.will {
                let due = after_left(will.delay.as_secs());
                will.due = Some(ends.map_or(due, |ends| ends.min(due)));
            }
            if was_there {
                self.put(key);
                if self.notes.len() >= PIECE {
                    self.note();
                }
            }
            self.watch(key);
        }
        self.note();
        after
    }

    /// Notes a session as it is now, if it is kept.
    pub(super) fn put(&mut self, key: ClientKey) {
        let mut notes = std::mem::take(&mut self.notes);
        let partings = std::mem::take(&mut self.partings);
        if let Some(session) = self.get(key).filter(|session| session.number != 0) {
            put_session(&mut notes, session, partings.of(session.number));
        }
        (self.notes, self.partings) = (notes, partings);
    }

    /// Has this session looked after at its next time, if it has one, and at no other.
    pub(super) fn watch(&mut self, key: ClientKey) {
        let Some(session) = self.get(key) else { return };
        let will = session.will.as_ref().and_then(|will| will.due);
        let next = will.into_iter().chain(session.ends).min();
        let before = std::mem::replace(&mut session.watched, next);
        if next == before {
            return;
        }
        let place = |time| (time, key.slot, key.generation);
        before.map(|before| self.due.remove(&place(before)));
        self.due.extend(next.map(place));
    }

    /// When something is due next.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.due.first().map(|(next, ..)| *next)
    }

    /// Does what is due at `now`.
    pub(crate) fn expire(&mut self, now: Duration) -> After {
        let mut after = After::default();
        while let Some((due, slot, generation)) = self.due.first().copied()
            && due <= now
        {
            self.due.pop_first();
            let key = ClientKey { partition: self.partition, slot, generation };
            let Some(session) = self.get(key) else { continue };
            session.watched = None;
            if session.link.is_some() {
                continue;
            }
            let is_due = session.will.as_ref().is_some_and(|will| will.due <= Some(now));
            let ends = session.ends.is_some_and(|ends| ends <= now);
            let will = match is_due || ends {
                true => session.will.take().map(|will| will.message),
                false => None,
            };
            if ends {
                self.remove(slot, will, &mut after);
                continue;
            }
            after.wills.extend(self.part(key, will));
            self.watch(key);
        }
        self.note();
        after
    }
}
