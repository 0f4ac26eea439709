//! A client leaves: what becomes of its will and of its session, now and later.

use std::sync::Arc;
use std::time::Duration;

use crate::message::Message;
use crate::session::key::ClientKey;
use crate::session::table::Sessions;

/// What a change of sessions has others do, once it is made.
#[derive(Default)]
pub(crate) struct After {
    /// Wills to publish.
    pub(crate) wills: Vec<Message>,
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
        let Some(session) = self.get(key) else { return after };
        if session.on(link).is_none() {
            return after;
        }
        session.link = None;
        if let Some(expiry) = closing.expiry {
            session.expiry = expiry;
        }
        if !closing.will {
            session.will = None;
        }
        if session.expiry == 0 {
            after.wills.extend(session.will.take().map(|will| will.message));
            self.remove(key.slot, &mut after);
            return after;
        }
        if session.expiry < u32::MAX {
            session.ends = Some(now + Duration::from_secs(session.expiry.into()));
        }
        match &mut session.will {
            Some(will) if will.delay.is_zero() => {
                after.wills.extend(session.will.take().map(|will| will.message));
            }
            // The end of the session is the latest.
            Some(will) => {
                let due = now + will.delay;
                will.due = Some(session.ends.map_or(due, |ends| ends.min(due)));
            }
            None => (),
        }
        if session.shared > 0 {
            after.present = Some((key, false));
        }
        self.watch(key);
        after
    }

    /// Has looked after this session at its next time.
    fn watch(&mut self, key: ClientKey) {
        let Some(session) = self.get(key) else { return };
        let will = session.will.as_ref().and_then(|will| will.due);
        let Some(next) = will.into_iter().chain(session.ends).min() else { return };
        self.due.insert((next, key.slot, key.generation));
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
            if session.link.is_some() {
                continue;
            }
            let is_due = session.will.as_ref().is_some_and(|will| will.due <= Some(now));
            let ends = session.ends.is_some_and(|ends| ends <= now);
            if is_due || ends {
                after.wills.extend(session.will.take().map(|will| will.message));
            }
            match ends {
                true => self.remove(slot, &mut after),
                false => self.watch(key),
            }
        }
        after
    }
}
