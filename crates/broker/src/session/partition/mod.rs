//! One partition of the session stage.
//!
//! | file | contents |
//! |---|---|
//! | `open.rs`, `close.rs` | the beginning and end of connections and sessions |
//! | `incoming.rs` | QoS 2 messages from clients |
//! | `subscriptions.rs` | the subscriptions of a session |
//! | `wills.rs` | passes wills from the session to the router |
//! | `install.rs` | adds sessions of another node |
//! | `moving.rs` | a session moves from or to another node |
//! | `handover.rs` | takes the messages for a lost node |
//! | `inspect.rs` | lists sessions for the admin pages |

pub(crate) mod close;
pub(crate) mod handover;
pub(super) mod incoming;
pub(crate) mod inspect;
pub(crate) mod install;
pub(crate) mod moving;
pub(crate) mod open;
pub(super) mod subscriptions;
mod wills;

use std::collections::{BTreeSet, HashMap};
use std::rc::Weak;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use phalanx::sync::oneshot;
use phalanx_mqtt::{PropertyBuffer, Reason};
use phalanx_store::Entry as WalEntry;

use crate::counters::Counters;
use crate::durable::recovery::RecoveredSessions;
use crate::durable::{Lsn, Wal};
use crate::limits::delivery_limiter::DeliveryLimiter;
use crate::limits::settings::LiveLimits;
use crate::model::client_key::ClientKey;
use crate::model::delivery::DeliveryBatch;
use crate::model::message::{Message, Source};
use crate::model::moving::Moving;
use crate::model::session::{Session, SessionLoad};
use crate::model::subscriptions::subscription_size::chunks;
use crate::model::waiting_sender::WaitingSender;
use crate::session::partition::close::schedule;
use crate::session::state::copies::Copies;
use crate::session::state::directory::Directory;
use crate::session::state::effects::{Effects, Output, Pulled};
use crate::session::state::encoding::SendContext;
use crate::session::state::load::PartitionLoad;
use crate::session::state::outgoing::{Answered, keep};
use crate::session::state::pending_wills::PendingWills;

/// The waker of a connection's sender, and the sender itself if it is on the partition's processor.
pub(super) type Waiting<'a> = (&'a Waker, Option<&'a dyn Fn() -> Weak<dyn WaitingSender>>);

/// The sessions of one partition.
pub(crate) struct Sessions {
    pub(super) partition: u16,
    slots: Vec<Slot>,
    free: Vec<u32>,
    pub(super) names: HashMap<Arc<str>, u32>,
    pub(super) directory: Directory,
    /// Clients whose directory entry may have to be released, possibly with duplicates.
    pub(super) departed: Vec<Arc<str>>,
    /// The number of connections so far.
    pub(super) connections: u64,
    /// Timers of disconnected sessions: time, slot, generation.
    pub(super) due: BTreeSet<(Duration, u32, u32)>,
    /// Whether an operation runs the timers, and its waker.
    pub(super) has_timer_task: bool,
    pub(super) timer_wake: Option<oneshot::LocalSender<()>>,
    pub(super) limits: LiveLimits,
    pub(super) counters: Counters,
    pub(super) load: PartitionLoad,
    scratch: PropertyBuffer,
    /// Unused output buffers. Idle connections have no buffer.
    spares: Vec<Vec<u8>>,
    pub(super) copies: Copies,
    pub(super) wal: Wal,
    pub(super) delivery_limiter: DeliveryLimiter,
    /// Records of changes not yet appended to the WAL, and the LSN of the last append.
    pub(super) records: WalEntry,
    lsn: Lsn,
    /// Clients whose session end is in `records` but not yet appended.
    pub(super) ended: Vec<Arc<str>>,
    pub(super) pending_wills: PendingWills,
    /// Recovered sessions that have not been resumed.
    pub(super) restored: Option<RecoveredSessions>,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    session: Option<Box<Session>>,
}

impl Slot {
    /// The session with this key, if it still exists.
    fn of(&mut self, key: ClientKey) -> Option<&mut Session> {
        self.session.as_deref_mut().filter(|_| self.generation == key.generation)
    }
}

impl Sessions {
    pub(crate) fn new(
        (partition, directory): (usize, Directory),
        limits: LiveLimits,
        counters: Counters,
        (wal, delivery_limiter): (Wal, DeliveryLimiter),
        mut restored: RecoveredSessions,
    ) -> Self {
        let sessions = std::mem::take(&mut restored.sessions);
        let pending_wills = std::mem::take(&mut restored.pending_wills);
        restored.count = sessions.len() as u32;
        let clocks = restored.clocks;
        let load = PartitionLoad::new(&counters, partition);
        let mut table = Self {
            load,
            partition: u16::try_from(partition).expect("no more partitions than processors"),
            directory,
            departed: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            names: HashMap::new(),
            connections: 0,
            due: BTreeSet::new(),
            has_timer_task: false,
            timer_wake: None,
            limits,
            counters,
            scratch: PropertyBuffer::new(),
            spares: Vec::new(),
            copies: Copies::default(),
            wal,
            delivery_limiter,
            records: WalEntry::new(),
            lsn: Lsn::default(),
            ended: Vec::new(),
            pending_wills: PendingWills::default(),
            restored: Some(restored),
        };
        for (number, client, mut will) in pending_wills {
            will.publisher = Some(client.clone());
            table.pending_wills.restore(number, None, will);
            table.pending_wills.over.insert(number, client);
        }
        for mut session in sessions {
            let pending_wills = std::mem::take(&mut session.pending_wills);
            let mut session = session.into_session();
            // The client may connect before the session is resumed.
            schedule(&mut session, clocks);
            let (number, publisher) = (session.number, session.client_id.clone());
            table.load.change(SessionLoad::default(), session.load());
            let client = &session.client_id;
            let keys = session.keys.iter();
            keys.for_each(|(key, size)| table.counters.subscribed(client, (key, *size)));
            if let (Moving::Given(token), Some(peers)) = (&session.moving, &table.counters.peers) {
                // The runtime has not started, so the time is still zero.
                peers.moves.add_given(session.identity(), token.clone(), Duration::ZERO);
            }
            let slot = table.add(session);
            let key = Some(table.key(slot));
            for mut will in pending_wills {
                will.publisher = Some(publisher.clone());
                table.pending_wills.restore(number, key, will);
            }
        }
        table.load.publish();
        table
    }

    /// Appends the records of changes to the WAL. Returns the LSN that covers all changes of this partition. Called at
    /// the end of each operation.
    pub(super) fn append(&mut self) -> Lsn {
        if !self.records.is_empty() {
            self.lsn = self.wal.append(&mut self.records);
            for client in self.ended.drain(..) {
                self.directory.session_ended(&client, self.lsn);
            }
        }
        self.release_departed();
        self.lsn
    }

    /// Like [`append`](Self::append), for one client. Returns the LSN for which the client has to wait, which is 0 unless
    /// it `has_records`. So the client does not wait for the records of other clients.
    pub(super) fn append_of(&mut self, has_records: bool) -> Lsn {
        let lsn = self.append();
        if has_records { lsn } else { Lsn::default() }
    }

    /// Releases the directory entries of clients whose session has ended, so that another partition may create their next
    /// one. Called after the end was appended, so that the next session depends on it. The end of a session with a
    /// pending will is appended later.
    pub(super) fn release_departed(&mut self) {
        for client in self.departed.drain(..) {
            if !self.names.contains_key(&client) {
                self.directory.release(&client, self.partition);
            }
        }
    }

    pub(super) fn at(&mut self, slot: u32) -> Option<&mut Session> {
        self.slots.get_mut(slot as usize)?.session.as_deref_mut()
    }

    /// The session with this key, if it still exists.
    pub(crate) fn get(&mut self, key: ClientKey) -> Option<&mut Session> {
        self.slots.get_mut(key.slot as usize)?.of(key)
    }

    /// The sessions in slots from `first` on, with their slots.
    pub(super) fn sessions_from(&self, first: usize) -> impl Iterator<Item = (usize, &Session)> {
        let slots = self.slots.iter().enumerate().skip(first);
        slots.filter_map(|(slot, entry)| Some((slot, entry.session.as_deref()?)))
    }

    pub(super) fn all_sessions(&mut self) -> impl Iterator<Item = &mut Session> {
        self.slots.iter_mut().filter_map(|slot| slot.session.as_deref_mut())
    }

    pub(super) fn key(&self, slot: u32) -> ClientKey {
        let generation = self.slots[slot as usize].generation;
        ClientKey { partition: self.partition, slot, generation }
    }

    pub(super) fn add(&mut self, session: Session) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            u32::try_from(self.slots.len() - 1).expect("fewer than 2³² sessions")
        });
        self.names.insert(session.client_id.clone(), slot);
        self.counters.places.add(session.moving.is_copy(), 1);
        self.slots[slot as usize].session = Some(Box::new(session));
        slot
    }

    /// Ends a session, and enqueues its will if it has one.
    pub(super) fn remove(&mut self, number: u32, will: Option<Message>, effects: &mut Effects) {
        let key = self.key(number);
        self.set_online(key, false);
        let slot = &mut self.slots[number as usize];
        let Some(session) = slot.session.take() else { return };
        session.watched.map(|time| self.due.remove(&(time, key.slot, key.generation)));
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(number);
        session.discard(&self.counters.drops);
        if let Some(peers) = &self.counters.peers {
            match &session.moving {
                Moving::No => (),
                Moving::Leaving { token, .. }
                | Moving::Arriving { token, .. }
                | Moving::Arrived(token) => {
                    peers.moves.end(token);
                }
                Moving::Given(token) => {
                    peers.moves.end(token);
                    peers.moves.add_ended(session.identity(), session.moves);
                }
            }
        }
        self.load.change(session.load(), SessionLoad::default());
        self.load.publish();
        self.names.remove(&session.client_id);
        self.departed.push(session.client_id.clone());
        self.counters.places.add(session.moving.is_copy(), -1);
        let client = &session.client_id;
        if session.node_capacity.is_some()
            && let Some(peers) = &self.counters.peers
        {
            peers.node_capacities.forget(client);
        }
        let keys = session.keys.iter();
        keys.for_each(|(key, size)| self.counters.unsubscribed(client, (key, *size)));
        if session.routed {
            effects.forget.push((key, chunks(session.keys)));
        }
        if let Some(mut will) = will {
            will.publisher = Some(session.client_id.clone());
            effects.wills.push(self.enqueue_will(session.number, None, will));
        }
        if session.number != 0 {
            self.end(session.number, session.client_id);
        }
    }

    /// Delivers messages to their sessions; sessions that have ended are skipped.
    pub(crate) fn deliver(&mut self, batch: &DeliveryBatch, now: Duration) {
        self.limits.refresh();
        // A single message is sent immediately. Several messages are left to the senders, which write those of one client
        // together.
        let (mut delivered, at_once) = (0, batch.count == 1);
        let is_traced = self.counters.drops.events().traces().is_on();
        for (n, delivery) in batch.deliveries.iter().enumerate() {
            let run = batch.run(delivery);
            let slot = &mut self.slots[delivery.client.slot as usize];
            if let Some(session) = &mut slot.session
                && slot.generation == delivery.client.generation
            {
                let is_mark = run[0].source == Source::Cut;
                if is_mark && !session.takes_cut(&run[0]) {
                    continue;
                }
                let Self { limits, scratch, spares, copies, records, counters, .. } = self;
                let drops = &counters.drops;
                let context =
                    &mut SendContext { limits, scratch, spares, records, now, drops, at_once };
                let before = session.load();
                let mut accepted = run.len();
                if !copies.write((delivery, run), session, context) {
                    let out =
                        session.attachment.as_ref().map_or(0, |attachment| attachment.out.len());
                    let (how, number, written) =
                        (&delivery.how, delivery.number, session.written());
                    let deliver = |message: &&_| session.deliver(message, how, number, context);
                    accepted = run.iter().filter(deliver).count();
                    let next = batch.deliveries.get(n + 1);
                    if next.is_some_and(|next| next.message == delivery.message) && !is_traced {
                        copies.keep((delivery, run), session, (out, written));
                    }
                }
                session.update_capacity(context.limits);
                if is_mark {
                    session.moving.add_mark(run[0].size());
                    accepted = 0;
                }
                self.load.change(before, session.load());
                delivered += accepted as u64;
            }
        }
        self.copies.clear();
        self.counters.delivered.add(delivered);
        self.load.publish();
        self.append();
    }

    /// Arranges that the QoS 0 messages of the output count as lost if the output does not reach the connection.
    pub(in crate::session) fn guard(&mut self, key: ClientKey, pulled: &mut Pulled) {
        let Pulled::Output(output) = pulled else { return };
        if output.has_at_most_once() {
            let drops = self.counters.drops.clone();
            if let Some(session) = self.get(key) {
                output.guard(session, drops);
            }
        }
    }

    /// Processes acknowledgements received on connection `connection_id`.
    pub(super) fn answered(
        &mut self,
        (key, connection_id): (ClientKey, u64),
        answers: &[Answered],
    ) {
        let mut records = std::mem::take(&mut self.records);
        if let Some(session) = self.get(key).filter(|session| session.is_on(connection_id)) {
            let before = session.load();
            session.answered(answers, &mut records);
            session.node_capacity.as_ref().inspect(|capacity| capacity.progressed());
            let after = session.load();
            self.load.change(before, after);
            self.load.publish();
        }
        self.records = records;
        self.append();
    }

    /// Swaps the output of connection `connection_id` with its buffer. If there is no output, registers the waker, and
    /// the sender if it is on this processor.
    pub(super) fn pull(
        &mut self,
        (key, connection_id): (ClientKey, u64),
        spare: &mut Vec<u8>,
        now: Duration,
        (waiting, here): Waiting<'_>,
    ) -> Poll<(Pulled, Lsn)> {
        let closed = |reason| Poll::Ready((Pulled::Closed(reason), Lsn::default()));
        let Some(slot) = self.slots.get_mut(key.slot as usize) else {
            return closed(Reason::UNSPECIFIED_ERROR);
        };
        // Another connection has taken the session over: a connection that ended by itself no longer pulls.
        let Some(session) = slot.of(key).filter(|session| session.is_on(connection_id)) else {
            return closed(Reason::SESSION_TAKEN_OVER);
        };
        if let Some(reason) = session.attachment.as_ref().and_then(|attachment| attachment.ended) {
            return closed(reason);
        }
        let Self { limits, scratch, spares, records, counters, load, .. } = self;
        let (before, drops) = (session.load(), &counters.drops);
        let at_once = false;
        session.fill(&mut SendContext { limits, scratch, spares, records, now, drops, at_once });
        session.update_capacity(limits);
        if session.load() != before {
            load.change(before, session.load());
            load.publish();
        }
        let Some(attachment) = session.on(connection_id) else {
            return closed(Reason::SESSION_TAKEN_OVER);
        };
        if !attachment.out.is_empty() {
            let bytes = std::mem::replace(&mut attachment.out, std::mem::take(spare));
            let at_most_once = std::mem::take(&mut attachment.unsent);
            let is_fenced = std::mem::take(&mut attachment.is_fenced);
            let lsn = self.append_of(is_fenced);
            return Poll::Ready((Pulled::Output(Output::new(bytes, at_most_once)), lsn));
        }
        if std::mem::take(&mut attachment.is_interrupted) {
            self.append();
            let nothing = Output::new(std::mem::take(spare), 0);
            return Poll::Ready((Pulled::Output(nothing), Lsn::default()));
        }
        keep(spares, std::mem::take(spare));
        keep(spares, std::mem::take(&mut attachment.out));
        attachment.waiting.register(waiting);
        attachment.is_idle = here.is_some();
        if let (Some(sender), None) = (here, &attachment.sender) {
            attachment.sender = Some(sender());
        }
        self.append();
        Poll::Pending
    }
}
