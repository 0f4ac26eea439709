//! Sessions: groups of operations that are cancelled together (SessionKey in tr2001 §5.2.1).
//!
//! An operation belongs to the session of the operation that invoked it, on any processor, unless it was invoked into
//! another session. Ending a session cancels its operations, on each processor the youngest first, so children before
//! their parents. The end is complete when no operation is left on any processor and every
//! [`SessionGuard`](crate::SessionGuard) has been dropped, for example that of a buffer used by the kernel. This file
//! contains one processor's part; [`crate::session::group`] connects the processors.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;

use crate::mailbox::command::ReplyTo;
use crate::memory::numbered::Numbered;
use crate::memory::slab::Slab;
use crate::operation::slot::Slot;
use crate::operation::state::{NO_SESSION, Serial};
use crate::session::group::Group;
use crate::sync::Ordering;

/// No deadline; later than any time.
pub(crate) const NO_DEADLINE: u64 = u64::MAX;

/// A kind of resource that a record counts in addition to its operations.
#[derive(Clone, Copy)]
pub(crate) enum Resource {
    /// A handle on this processor. It keeps the record.
    Handle,
    /// A guard on this processor. The session has not settled here while there is one.
    Guard,
    /// Another processor that has not yet replied that its part has settled.
    UnconfirmedProcessor,
}

/// One processor's part of one session.
#[derive(Default)]
pub(crate) struct SessionRecord {
    /// The slot index of the youngest operation; the list continues in [`SessionTable::links`].
    newest: u32,
    pub(crate) operations: usize,
    /// The number of each [`Resource`].
    resources: [usize; 3],
    ended: bool,
    /// The deadline in the clock's nanoseconds. Unused once the session has a group, which then stores the deadline.
    deadline: u64,
    /// Tasks to be woken when the session has settled everywhere.
    pub(crate) wakers: Vec<Waker>,
    /// The group of the session. It exists from the first invocation on another processor.
    group: Option<Arc<Group>>,
    /// Whether this processor has sent the other processors the command to end.
    end_sent: bool,
    /// Requests to be replied to when this part has settled.
    pub(crate) replies: Vec<ReplyTo>,
}

impl SessionRecord {
    /// A record with this number of handles: one if the session begins here, zero if it began on another processor.
    pub(crate) fn new(handles: usize, group: Option<Arc<Group>>) -> Self {
        let (newest, deadline, resources) = (NO_SESSION, NO_DEADLINE, [handles, 0, 0]);
        Self { newest, deadline, resources, group, ..Self::default() }
    }

    fn deadline(&self) -> u64 {
        self.group.as_ref().map_or(self.deadline, |group| group.deadline.load(Ordering::Relaxed))
    }

    pub(crate) fn count(&self, resource: Resource) -> usize {
        self.resources[resource as usize]
    }

    /// Whether the session has no operation and no guard on this processor.
    fn has_settled(&self) -> bool {
        self.operations == 0 && self.count(Resource::Guard) == 0
    }
}

/// The neighbours of an operation in its session's list, as slot indices.
#[derive(Clone, Copy)]
struct Links {
    older: u32,
    newer: u32,
}

/// The waiters for a settled session: requests of other processors, and tasks.
#[derive(Default)]
pub(crate) struct Settled {
    pub(crate) replies: Vec<ReplyTo>,
    pub(crate) wakers: Vec<Waker>,
}

/// The session table of one processor.
pub(crate) struct SessionTable {
    pub(crate) records: Numbered<SessionRecord>,
    /// The list links of each slot, meaningless for slots without a session. They are not in the slots' headers,
    /// because most operations do not need them.
    links: RefCell<Vec<Links>>,
    /// The records of groups, by group identity. A tree, to avoid hashing.
    by_address: RefCell<BTreeMap<usize, u32>>,
    /// The session of new invocations, which is the session of the running operation.
    current: Cell<u32>,
}

impl Default for SessionTable {
    fn default() -> Self {
        Self {
            records: Numbered::default(),
            links: RefCell::default(),
            by_address: RefCell::default(),
            current: Cell::new(NO_SESSION),
        }
    }
}

impl SessionTable {
    #[inline]
    pub(crate) fn current(&self) -> u32 {
        self.current.get()
    }

    #[inline]
    pub(crate) fn set_current(&self, session: u32) {
        self.current.set(session);
    }

    #[inline]
    pub(crate) fn has_ended(&self, session: u32) -> bool {
        session != NO_SESSION && self.with(session, |record| record.ended)
    }

    /// Adds an operation to a session.
    pub(crate) fn add(&self, slab: &Slab, slot: Slot, session: u32) {
        let index = slot.id.get().index();
        let older = self.with(session, |record| {
            record.operations += 1;
            std::mem::replace(&mut record.newest, index)
        });
        slot.session.set(session);
        let (mut links, own) = (self.links.borrow_mut(), Links { older, newer: NO_SESSION });
        if links.len() <= index as usize {
            links.resize(slab.capacity() as usize, own);
        }
        links[index as usize] = own;
        if let Some(older) = links.get_mut(older as usize) {
            older.newer = index;
        }
    }

    /// Removes a completed operation from its session.
    #[must_use]
    pub(crate) fn remove(&self, slot: Slot) -> Settled {
        let session = slot.session.replace(NO_SESSION);
        let mut links = self.links.borrow_mut();
        let Links { older, newer } = links[slot.id.get().index() as usize];
        if let Some(older) = links.get_mut(older as usize) {
            older.newer = newer;
        }
        match links.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.with(session, |record| record.newest = older),
        }
        drop(links);
        self.with(session, |record| record.operations -= 1);
        self.settle(session)
    }

    /// Checks whether the session has settled here. If so, returns its waiters, and drops the record if
    /// no handle refers to it.
    #[must_use]
    fn settle(&self, session: u32) -> Settled {
        let (settled, is_unused) = self.with(session, |record| {
            if !record.has_settled() {
                return (Settled::default(), false);
            }
            let replies = std::mem::take(&mut record.replies);
            let is_over = record.count(Resource::UnconfirmedProcessor) == 0;
            let wakers = if is_over { std::mem::take(&mut record.wakers) } else { Vec::new() };
            (Settled { replies, wakers }, is_over && record.count(Resource::Handle) == 0)
        });
        if is_unused {
            self.remove_record(session);
        }
        settled
    }

    fn remove_record(&self, session: u32) {
        if let Some(group) = self.records.remove(session).group {
            self.by_address.borrow_mut().remove(&group.address());
        }
    }

    /// Counts one more resource of a session.
    pub(crate) fn retain(&self, session: u32, resource: Resource) {
        self.with(session, |record| record.resources[resource as usize] += 1);
    }

    /// Counts one resource of a session less. Returns the session's waiters if it was the last one.
    #[must_use]
    pub(crate) fn release(&self, session: u32, resource: Resource) -> Settled {
        self.with(session, |record| record.resources[resource as usize] -= 1);
        self.settle(session)
    }

    /// Has a request replied to when the session has settled here.
    pub(crate) fn reply_when_settled(&self, session: u32, to: ReplyTo) {
        self.with(session, |record| record.replies.push(to));
    }

    /// The number of operations of a session on this processor.
    pub(crate) fn operations(&self, session: u32) -> usize {
        self.with(session, |record| record.operations)
    }

    fn with<R>(&self, session: u32, f: impl FnOnce(&mut SessionRecord) -> R) -> R {
        let mut records = self.records.records.borrow_mut();
        f(records[session as usize].as_mut().expect("a record with this number"))
    }

    /// Returns all waiters for the end of a session, at shutdown of the processor.
    pub(crate) fn clear(&mut self) -> Settled {
        let mut waiting = Settled::default();
        for record in self.records.records.get_mut().drain(..).flatten() {
            waiting.replies.extend(record.replies);
            waiting.wakers.extend(record.wakers);
        }
        waiting
    }

    /// Marks the session as ended. Returns its group if the other processors must still be sent the
    /// command.
    pub(crate) fn mark_ended(&self, session: u32) -> Option<Arc<Group>> {
        self.with(session, |record| {
            record.ended = true;
            let was_sent = std::mem::replace(&mut record.end_sent, true);
            record.group.clone().filter(|_| !was_sent)
        })
    }

    /// Closes the session, so that no operation can join it. Idempotent. Also used for a group that another processor
    /// has ended. Returns the operations on this processor, youngest first.
    pub(crate) fn close(&self, slab: &Slab, session: u32) -> Vec<(Slot, Serial)> {
        let mut next = self.with(session, |record| {
            record.ended = true;
            record.newest
        });
        let mut members = Vec::new();
        while let Some(slot) = slab.get(next) {
            members.push((slot, slot.serial.get()));
            next = self.links.borrow()[next as usize].older;
        }
        members
    }

    /// Runs `f` with `session` as the session of new invocations.
    pub(crate) fn with_current<R>(&self, session: u32, f: impl FnOnce() -> R) -> R {
        struct Restore<'a>(&'a Cell<u32>, u32);
        impl Drop for Restore<'_> {
            fn drop(&mut self) {
                self.0.set(self.1);
            }
        }
        let before = self.current.replace(session);
        let _leave = Restore(&self.current, before);
        f()
    }

    /// Registers `waker` to be woken when the session has settled everywhere. Returns `false` if it already has.
    pub(crate) fn wait(&self, session: u32, waker: Waker) -> bool {
        let (waits, _unused) = self.with(session, |record| {
            let waits = !record.has_settled() || record.count(Resource::UnconfirmedProcessor) > 0;
            if !waits || record.wakers.iter().any(|waiting| waiting.will_wake(&waker)) {
                // Dropped after the borrow: a waker may be foreign code.
                return (waits, Some(waker));
            }
            record.wakers.push(waker);
            (true, None)
        });
        waits
    }

    /// Whether the session's deadline has passed at `now`.
    #[inline]
    pub(crate) fn is_expired(&self, session: u32, now: u64) -> bool {
        session != NO_SESSION && self.deadline(session) <= now
    }

    pub(crate) fn set_deadline(&self, session: u32, deadline: u64) {
        self.with(session, |record| match &record.group {
            Some(group) => group.deadline.store(deadline, Ordering::Relaxed),
            None => record.deadline = deadline,
        });
    }

    /// The time after which operations of the session are not started, in the clock's nanoseconds; [`NO_DEADLINE`] if
    /// there is none.
    pub(crate) fn deadline(&self, session: u32) -> u64 {
        match session {
            NO_SESSION => NO_DEADLINE,
            session => self.with(session, |record| record.deadline()),
        }
    }
}

/// Methods for groups, which connect the records of a session on several processors.
impl SessionTable {
    /// Returns the group of a session, creating it when the first invocation leaves processor `here` of
    /// `processors`.
    #[cold]
    pub(crate) fn group(&self, session: u32, here: usize, processors: usize) -> Arc<Group> {
        let (group, deadline) =
            self.with(session, |record| (record.group.clone(), record.deadline));
        if let Some(group) = group {
            return group;
        }
        let group = Arc::new(Group::new(processors, deadline));
        group.register(here);
        self.with(session, |record| record.group = Some(group.clone()));
        self.by_address.borrow_mut().insert(group.address(), session);
        group
    }

    /// Returns this processor's record of a group, creating it if necessary. Returns `None` if the group has
    /// ended.
    pub(crate) fn record_of_group(&self, group: Arc<Group>, here: usize) -> Option<u32> {
        if !group.register(here) {
            return None;
        }
        let address = group.address();
        let known = self.by_address.borrow().get(&address).copied();
        Some(known.unwrap_or_else(|| {
            let session = self.records.add(SessionRecord::new(0, Some(group)));
            self.by_address.borrow_mut().insert(address, session);
            session
        }))
    }

    /// The record of a group on this processor, if there is one.
    pub(crate) fn find_group(&self, group: &Arc<Group>) -> Option<u32> {
        self.by_address.borrow().get(&group.address()).copied()
    }
}
