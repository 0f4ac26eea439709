//! Processes CONNECT: resumes or creates a session, and takes it over from an earlier connection.

use std::sync::Arc;
use std::time::Duration;

use phalanx::sync::Notify;
use phalanx_mqtt::{Reason, Version};

use crate::access::{NODE_CLIENTS, is_reserved};
use crate::durable::Lsn;
use crate::events::Origin;
use crate::events::drops::{DropReason, Dropped};
use crate::model::client_key::ClientKey;
use crate::model::message::Message;
use crate::model::moving::Moving;
use crate::model::session::{Attachment, Session, Will};
use crate::session::partition::Sessions;
use crate::session::state::effects::Effects;

/// The parameters of a CONNECT.
pub(crate) struct Opening {
    pub(crate) client_id: Arc<str>,
    /// `None` in tests without a connection.
    pub(crate) origin: Option<Origin>,
    /// The authenticated user; `None` for an anonymous client.
    pub(crate) user: Option<Arc<str>>,
    pub(crate) version: Version,
    pub(crate) clean_start: bool,
    /// Whether to fail if there is no session: the session was found here, but may have moved since.
    pub(crate) must_exist: bool,
    /// Session expiry interval in seconds.
    pub(crate) expiry: u32,
    pub(crate) receive_maximum: u16,
    /// Maximum packet size of the client, in bytes.
    pub(crate) most: usize,
    pub(crate) most_aliases: u16,
    pub(crate) will: Option<(Message, Duration)>,
}

/// An opened session.
pub(crate) struct Opened {
    pub(crate) key: ClientKey,
    /// The number of the connection.
    pub(crate) connection_id: u64,
    /// Whether a session was resumed.
    pub(crate) present: bool,
    /// The session's ID in the journal; 0 if it is not persistent.
    pub(crate) durable_id: u64,
    /// If the session was taken over from another connection, the origin of that connection.
    pub(crate) taken_over: Option<Option<Origin>>,
}

impl Sessions {
    /// Returns the partition of the client's session. Claims the client for this partition if it has no session.
    pub(in crate::session) fn claim(&mut self, client: &Arc<str>) -> u16 {
        let partition = self.directory.claim(client, self.partition);
        if partition == self.partition {
            // So that the entry is released if the client is rejected.
            self.departed.push(client.clone());
        }
        partition
    }

    /// Counts a rejected client.
    pub(in crate::session) fn refused_session(&self, client: &str, user: Option<&str>) {
        let (disk_full, store_full) = (DropReason::SessionDiskFull, DropReason::SessionStoreFull);
        let reason = self.wal.reason(disk_full, store_full);
        let what = || Dropped { client: Some(client), user, ..Dropped::default() };
        self.counters.drops.add(reason, 1, what);
    }

    /// Attaches a new connection to the client's session. The caller has to apply the effects even if the client is
    /// rejected.
    pub(crate) fn open(
        &mut self,
        opening: Opening,
        now: Duration,
    ) -> (Result<Opened, Reason>, Effects, Lsn) {
        self.limits.refresh();
        let mut effects = Effects::default();
        let known = self.names.get(&opening.client_id).copied();
        let lasts = opening.expiry > 0;
        // A will is stored even if the session ends with the connection.
        let is_durable = self.wal.is_enabled() && (lasts || opening.will.is_some());
        // Another user may neither resume nor end an unexpired session.
        if let Some(session) = known.and_then(|slot| self.at(slot))
            && !session.has_expired(now)
            && session.user != opening.user
        {
            return (Err(Reason::NOT_AUTHORIZED), effects, Lsn::default());
        }
        if known.is_none() && opening.must_exist {
            // The session has moved to another node meanwhile.
            return (Err(Reason::SERVER_BUSY), effects, Lsn::default());
        }
        if let Some(session) = known.and_then(|slot| self.at(slot))
            && !(opening.clean_start || session.has_expired(now))
            && !matches!(session.moving, Moving::No | Moving::Leaving { .. })
        {
            // Another node has the session, or the session has not arrived here yet.
            return (Err(Reason::SERVER_BUSY), effects, Lsn::default());
        }
        let was_durable =
            known.and_then(|slot| self.at(slot)).is_some_and(|session| session.number != 0);
        let needs_journal = is_durable || was_durable;
        if needs_journal && self.wal.is_behind() {
            self.refused_session(&opening.client_id, opening.user.as_deref());
            return (Err(Reason::SERVER_UNAVAILABLE), effects, Lsn::default());
        }
        // Checked before the session is taken over, so that a rejected client keeps it. A session that replaces another
        // does not add to the number. Other nodes and bridges are few, and without their sessions the connection to other
        // brokers would be interrupted.
        if known.is_none()
            && self.counters.places.is_full(self.limits.sessions)
            && !is_reserved(&opening.client_id)
        {
            return (Err(Reason::QUOTA_EXCEEDED), effects, Lsn::default());
        }
        if is_durable && !was_durable && self.wal.is_full() {
            self.refused_session(&opening.client_id, opening.user.as_deref());
            return (Err(Reason::QUOTA_EXCEEDED), effects, Lsn::default());
        }
        if let Some(session) = known.and_then(|slot| self.at(slot))
            && let Moving::Leaving { token, .. } = session.moving.clone()
        {
            // The client has returned to this node.
            let owner = session.identity();
            self.stay(&owner, &token, now);
        }
        let earlier =
            known.and_then(|slot| self.at(slot)).and_then(|session| session.attachment.as_ref());
        let taken_over = earlier.map(|attachment| attachment.origin);
        let known = known.filter(|slot| self.take_over(*slot, &opening, now, &mut effects));
        let slot = match known {
            Some(slot) => slot,
            None => {
                let number = if is_durable { self.wal.allocate_session() } else { 0 };
                let session = Session::new(opening.client_id.clone(), opening.user.clone());
                self.add(Session { number, lasts, ..session })
            }
        };
        let client = opening.client_id;
        self.connections += 1;
        let number = self.connections;
        let key = self.key(slot);
        // Limited, because each alias stores a topic.
        let most_aliases = self.limits.topic_alias;
        let most_inflight = match client.starts_with(NODE_CLIENTS) {
            // Nodes negotiate their windows. Only the limit on bytes in flight applies to them.
            true => u16::MAX,
            false => self.limits.inflight_messages,
        };
        let peers = self.counters.peers.as_ref().filter(|_| client.starts_with(NODE_CLIENTS));
        let capacity = peers.map(|peers| peers.node_capacities.of(&client));
        let Some(session) = self.at(slot) else {
            return (Err(Reason::UNSPECIFIED_ERROR), effects, Lsn::default());
        };
        session.left = 0;
        session.expiry = opening.expiry;
        session.ends = None;
        session.will =
            opening.will.map(|(message, delay)| Box::new(Will { message, delay, due: None }));
        // PUBREL first: it neither waits for the receive maximum (MQTT-3.3.4-10) nor counts towards it.
        let mut again: Vec<_> = session
            .inflight
            .iter()
            .map(|(id, own)| (own.message.is_some(), own.sequence, id))
            .collect();
        again.sort_unstable();
        let earlier = session.in_use();
        session.attachment = Some(Attachment {
            number,
            version: opening.version,
            origin: opening.origin,
            ended: None,
            receive_maximum: opening.receive_maximum.min(most_inflight).into(),
            most: opening.most,
            aliases: Default::default(),
            alias_bytes: 0,
            most_aliases: opening.most_aliases.min(most_aliases),
            out: Vec::new(),
            unsent: 0,
            is_fenced: false,
            again: again.into_iter().map(|(.., id)| id).collect(),
            earlier,
            waiting: Notify::default(),
            sender: None,
            is_idle: false,
            is_interrupted: false,
        });
        if session.shared > 0 {
            effects.present = Some((key, true));
        }
        session.node_capacity = capacity;
        let durable_id = session.durable_id();
        self.set_online(key, true);
        self.watch(key);
        self.put(key);
        let opened =
            Opened { key, connection_id: number, present: known.is_some(), durable_id, taken_over };
        let lsn = self.append();
        // A client without persistent state waits only for the end of its earlier session, not for unrelated changes.
        let lsn = match needs_journal {
            true => lsn,
            false => self.directory.ended(&client),
        };
        (Ok(opened), effects, lsn)
    }

    /// Takes over the session in `slot` for another connection. Returns whether it is resumed. It is not resumed after a
    /// clean start, if it ends with its connection (MQTT-3.1.2-6), or if it has expired.
    fn take_over(
        &mut self,
        slot: u32,
        opening: &Opening,
        now: Duration,
        effects: &mut Effects,
    ) -> bool {
        let drops = self.counters.drops.clone();
        let Some(session) = self.at(slot) else { return false };
        let lasts = session.expiry > 0 && !session.has_expired(now);
        let goes_on = lasts && !opening.clean_start;
        // Wakes the earlier connection, which then finds that its session was taken over.
        session.detach(&drops);
        // The will is published unless the client resumes the session before the will delay has passed.
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
