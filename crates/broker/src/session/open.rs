//! A client comes: its session goes on, or a new one begins; whoever had it before loses it.

use std::sync::Arc;
use std::time::Duration;

use phalanx_mqtt::{Reason, Version};

use crate::durable::Lsn;
use crate::message::Message;
use crate::notify::Notify;
use crate::session::close::Effects;
use crate::session::key::ClientKey;
use crate::session::state::{Attachment, Session, Will};
use crate::session::table::Sessions;

/// What a client asks for by CONNECT.
pub(crate) struct Opening {
    pub(crate) client_id: Arc<str>,
    /// Whose it is: who is nobody's user has sessions that are nobody's.
    pub(crate) user: Option<Arc<str>>,
    pub(crate) version: Version,
    pub(crate) clean_start: bool,
    /// Seconds that the session outlives the connection.
    pub(crate) expiry: u32,
    pub(crate) receive_maximum: u16,
    /// Bytes of the longest packet that it takes.
    pub(crate) most: usize,
    pub(crate) most_aliases: u16,
    pub(crate) will: Option<(Message, Duration)>,
}

/// What it gets.
pub(crate) struct Opened {
    pub(crate) key: ClientKey,
    /// The number of its connection.
    pub(crate) connection_id: u64,
    /// Whether its session goes on.
    pub(crate) present: bool,
    /// The number that what its session has is kept by; 0 if it is not.
    pub(crate) durable_id: u64,
}

impl Sessions {
    /// Has the client on a new connection. What is to be done then comes back, whether it is let in or not.
    pub(crate) fn open(
        &mut self,
        opening: Opening,
        now: Duration,
    ) -> (Result<Opened, Reason>, Effects, Lsn) {
        self.limits.refresh();
        let most = self.limits.sessions.div_ceil(self.partitions);
        let mut effects = Effects::default();
        let known = self.names.get(&opening.client_id).copied();
        let lasts = opening.expiry > 0;
        // A will is to be published even if nothing else outlives the connection.
        let is_durable = self.wal.is_enabled() && (lasts || opening.will.is_some());
        // A session that somebody may come back to is its user's alone, not to be ended by others either.
        if let Some(session) = known.and_then(|slot| self.at(slot))
            && session.ends.is_none_or(|ends| ends > now)
            && session.user != opening.user
        {
            return (Err(Reason::NOT_AUTHORIZED), effects, Lsn::default());
        }
        let was_durable = known.and_then(|slot| self.at(slot)).is_some_and(|own| own.number != 0);
        if (is_durable || was_durable) && self.wal.is_behind() {
            self.refused_session(&opening.client_id);
            return (Err(Reason::SERVER_UNAVAILABLE), effects, Lsn::default());
        }
        let known = known.filter(|slot| self.take_over(*slot, &opening, now, &mut effects));
        let slot = match known {
            Some(slot) => slot,
            None if self.names.len() >= most => {
                return (Err(Reason::QUOTA_EXCEEDED), effects, self.append());
            }
            None if is_durable && self.wal.is_full() => {
                self.refused_session(&opening.client_id);
                return (Err(Reason::QUOTA_EXCEEDED), effects, self.append());
            }
            None => {
                let number = if is_durable { self.wal.session() } else { 0 };
                let session = Session::new(opening.client_id.clone(), opening.user.clone());
                self.add(Session { number, lasts, ..session })
            }
        };
        self.connections += 1;
        let number = self.connections;
        let key = self.key(slot);
        // Each is a topic that is kept.
        let most_aliases = self.limits.topic_alias;
        let Some(session) = self.at(slot) else {
            return (Err(Reason::UNSPECIFIED_ERROR), effects, Lsn::default());
        };
        session.left = 0;
        session.expiry = opening.expiry;
        session.ends = None;
        session.will = opening.will.map(|(message, delay)| Will { message, delay, due: None });
        let mut again: Vec<_> =
            session.inflight.iter().map(|(id, own)| (own.sequence, *id)).collect();
        again.sort_unstable();
        session.attachment = Some(Attachment {
            number,
            version: opening.version,
            receive_maximum: opening.receive_maximum.into(),
            most: opening.most,
            aliases: Default::default(),
            most_aliases: opening.most_aliases.min(most_aliases),
            out: Vec::new(),
            unsent: 0,
            is_fenced: false,
            again: again.into_iter().map(|(_, id)| id).collect(),
            waiting: Notify::default(),
        });
        if session.shared > 0 {
            effects.present = Some((key, true));
        }
        let durable_id = session.durable_id();
        self.watch(key);
        self.put(key);
        let opened = Opened { key, connection_id: number, present: known.is_some(), durable_id };
        let lsn = self.append();
        // Who has nothing that is kept is only told that there is no session of its name: so it does not wait for what
        // others have changed.
        (Ok(opened), effects, if is_durable || was_durable { lsn } else { self.ended })
    }

    /// The session in `slot` is asked for by another connection. Whether it goes on: one that was to end with
    /// its connection does not (MQTT-3.1.2-6), nor one whose time is over and that nobody has looked after.
    fn take_over(
        &mut self,
        slot: u32,
        opening: &Opening,
        now: Duration,
        effects: &mut Effects,
    ) -> bool {
        let drops = self.counters.drops.clone();
        let Some(session) = self.at(slot) else { return false };
        let lasts = session.expiry > 0 && session.ends.is_none_or(|ends| ends > now);
        let goes_on = lasts && !opening.clean_start;
        // Who waits on the connection from before is woken, and finds that it is no more.
        session.detach(&drops);
        // It is published where the session has ended, or its connection and it is too late to come back.
        let will = session.will.take().filter(|will| !(goes_on && will.is_in_time(now)));
        let will = will.map(|will| will.message);
        match goes_on {
            true => {
                let key = self.key(slot);
                effects.wills.extend(self.enqueue_will_for(key, will));
            }
            false => self.remove(slot, will, effects),
        }
        goes_on
    }
}
