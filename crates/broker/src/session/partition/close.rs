//! The end of connections and sessions: wills and expiry.

use std::time::Duration;

use phalanx_store::{Record, SessionId};

use crate::durable::recovery::RecoveredSessions;
use crate::durable::{Clocks, MAX_COMMIT_BYTES, put_session};
use crate::model::client_key::ClientKey;
use crate::model::session::Session;
use crate::session::partition::Sessions;
use crate::session::state::effects::Effects;

/// Maximum number of timers that one step processes. It bounds the time for which other operations wait: each expired
/// session may have a full queue to discard.
const MAX_EXPIRED: usize = 256;

/// How a connection ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Closing {
    /// Whether to publish the will: the client did not send DISCONNECT, or requested it.
    pub(crate) will: bool,
    /// The session expiry interval in DISCONNECT, if any.
    pub(crate) expiry: Option<u32>,
}

impl Sessions {
    /// Detaches connection `connection_id` from its session.
    pub(crate) fn close(
        &mut self,
        key: ClientKey,
        connection_id: u64,
        closing: Closing,
        now: Duration,
    ) -> Effects {
        let mut effects = Effects::default();
        let drops = self.counters.drops.clone();
        let Some(session) = self.get(key) else { return effects };
        if session.on(connection_id).is_none() {
            return effects;
        }
        session.detach(&drops);
        session.node_capacity.as_ref().inspect(|capacity| capacity.open());
        self.set_online(key, false);
        let Some(session) = self.get(key) else { return effects };
        if session.number != 0 {
            session.left = Clocks::read().to_day(now);
        }
        // A session with expiry 0 was removed by an operator, or ends with its connection: the client cannot extend it.
        if let Some(expiry) = closing.expiry.filter(|_| session.expiry > 0) {
            session.expiry = expiry;
        }
        if !closing.will {
            session.will = None;
        }
        if session.expiry == 0 {
            let will = session.will.take().map(|will| will.message);
            self.remove(key.slot, will, &mut effects);
            return effects;
        }
        set_timers(session, |delay| now + delay);
        // The recorded session still includes the will. The will is removed from the journal when it is published.
        self.put(key);
        let Some(session) = self.get(key) else { return effects };
        let will = session.will.take_if(|will| will.delay.is_zero()).map(|will| will.message);
        if session.shared > 0 {
            effects.present = Some((key, false));
        }
        effects.wills.extend(self.enqueue_will_for(key, will));
        self.watch(key);
        effects
    }

    /// Makes the pull of connection `connection_id` return without output, so that no output is lost if the pull is
    /// dropped.
    pub(in crate::session) fn interrupt(&mut self, key: ClientKey, connection_id: u64) {
        if let Some(attachment) = self.get(key).and_then(|session| session.on(connection_id)) {
            attachment.is_interrupted = true;
            // The next time it waits, the connection may be on another processor.
            attachment.sender = None;
            attachment.wake();
        }
    }

    /// Resumes the recovered sessions. They have no connections, and may have expired.
    pub(in crate::session) fn resume(&mut self, now: Duration) -> Effects {
        let mut effects = Effects::default();
        let Some(RecoveredSessions { count, ended, .. }) = self.restored.take() else {
            return effects;
        };
        for number in ended {
            // The end of a session with a pending will is recorded when the will is published.
            if self.pending_wills.of(number).next().is_none() {
                self.records.push(&Record::SessionEnd { session: SessionId(number) });
            }
        }
        effects.wills.extend(self.pending_wills.restored());
        let clocks = Clocks::read();
        for slot in 0..count {
            let key = self.key(slot);
            let session = self.get(key).filter(|session| session.attachment.is_none());
            if session.is_some_and(|session| session.number != 0) {
                self.resume_session(key, now, clocks);
            }
            if self.records.len() >= MAX_COMMIT_BYTES {
                self.append();
            }
        }
        self.append();
        effects
    }

    /// Resumes a persistent session without a connection. It may have had one when the broker stopped.
    pub(in crate::session) fn resume_session(
        &mut self,
        key: ClientKey,
        now: Duration,
        clocks: Clocks,
    ) {
        let Some(session) = self.get(key) else { return };
        let was_there = session.left == 0;
        if was_there {
            session.left = clocks.to_day(now);
        }
        schedule(session, clocks);
        if was_there {
            self.put(key);
        }
        self.watch(key);
    }

    /// Records the current state of a persistent session.
    pub(in crate::session) fn put(&mut self, key: ClientKey) {
        let mut records = std::mem::take(&mut self.records);
        let pending_wills = std::mem::take(&mut self.pending_wills);
        if let Some(session) = self.get(key).filter(|session| session.number != 0) {
            put_session(&mut records, session, pending_wills.of(session.number));
        }
        (self.records, self.pending_wills) = (records, pending_wills);
    }

    /// Schedules the session's next timer, replacing an earlier one.
    pub(in crate::session) fn watch(&mut self, key: ClientKey) {
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

    /// The time of the next timer.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.due.first().map(|(next, ..)| *next)
    }

    /// Processes up to [`MAX_EXPIRED`] timers that are due at `now`. [`next_due`](Self::next_due) then returns the first
    /// of the rest.
    pub(crate) fn expire(&mut self, now: Duration) -> Effects {
        let mut effects = Effects::default();
        for _ in 0..MAX_EXPIRED {
            let first = self.due.first().copied().filter(|(due, ..)| *due <= now);
            let Some((_, slot, generation)) = first else { break };
            self.due.pop_first();
            let key = ClientKey { partition: self.partition, slot, generation };
            let Some(session) = self.get(key) else { continue };
            session.watched = None;
            if session.attachment.is_some() {
                continue;
            }
            let has_expired = session.has_expired(now);
            let will =
                session.will.take_if(|will| has_expired || will.due.is_some_and(|due| due <= now));
            let will = will.filter(|_| !session.moving.is_copy());
            let will = will.map(|will| will.message);
            if has_expired {
                self.remove(slot, will, &mut effects);
                continue;
            }
            effects.wills.extend(self.enqueue_will_for(key, will));
            self.watch(key);
        }
        self.append();
        effects
    }
}

/// Sets when a session without a connection ends, and when its will is published. If its client was connected when the
/// broker stopped, the connection counts as lost now.
pub(super) fn schedule(session: &mut Session, clocks: Clocks) {
    let left = match session.left {
        0 => clocks.to_day(clocks.now),
        left => left,
    };
    set_timers(session, |delay| clocks.of_day(left.saturating_add(delay.as_secs())));
}

/// Sets when a session without a connection ends, and when its will is published, which is no later than that. `after`
/// adds a delay to the time at which the connection ended.
fn set_timers(session: &mut Session, after: impl Fn(Duration) -> Duration) {
    if session.expiry < u32::MAX {
        session.ends = Some(after(Duration::from_secs(session.expiry.into())));
    }
    let ends = session.ends;
    if let Some(will) = &mut session.will {
        let due = after(will.delay);
        let due = ends.map_or(due, |ends| ends.min(due));
        // A copy publishes no will: another node may have the session, and its client may be connected there.
        will.due = (!session.moving.is_copy()).then_some(due);
    }
}
