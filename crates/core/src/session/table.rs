//! Sessions: groups of operations that are ended together (SessionKey in tr2001 §5.2.1).
//!
//! An operation belongs to the session of the operation that invoked it, on whichever processor it
//! runs, unless it was invoked into another. Ending a session ends its operations; those of one
//! processor the youngest first, so children before their parents. The end is complete when every
//! operation is gone, here and elsewhere, and every [`Hold`] (a buffer that a kernel still has) is
//! given back. This file is one processor's part; [`crate::session::group_flag`] is what goes between them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::future::deadline::NO_DEADLINE;
use crate::mailbox::command::Answer;
use crate::operation::slot::{NO_SESSION, Slot};
use crate::processor::notify::contain;
use crate::processor::processor::{self, Processor};
use crate::program::processor_id::{at_home, send_home};
use crate::session::group_flag::Group;

/// One processor's part of one session.
pub(crate) struct Record {
    /// The youngest operation's slot; the list goes on through [`Sessions::links`].
    youngest: u32,
    operations: usize,
    holds: usize,
    pub(crate) handles: usize,
    ended: bool,
    /// In the clock's nanoseconds.
    pub(crate) deadline: u64,
    waiting: Vec<Waker>,
    /// What joins it to the other processors' parts, from the first invocation that crosses.
    pub(crate) group: Option<Arc<Group>>,
    /// Whether this processor has asked the others to end their parts.
    asked: bool,
    /// Other processors that have not yet answered that their part has settled.
    pub(crate) owed: usize,
    /// Who wants to know when this part has settled.
    pub(crate) answers: Vec<Answer<()>>,
}

impl Default for Record {
    fn default() -> Self {
        Self {
            youngest: NO_SESSION,
            operations: 0,
            holds: 0,
            handles: 0,
            ended: false,
            deadline: NO_DEADLINE,
            waiting: Vec::new(),
            group: None,
            asked: false,
            owed: 0,
            answers: Vec::new(),
        }
    }
}

impl Record {
    /// A record of a session that has begun elsewhere: named by nobody yet.
    pub(crate) fn of_group(group: Arc<Group>) -> Self {
        Self { group: Some(group), ..Self::default() }
    }

    /// Whether nothing of the session is left on this processor.
    fn has_settled(&self) -> bool {
        self.operations == 0 && self.holds == 0
    }
}

/// An operation's neighbours in its session's list, by their slots' numbers.
#[derive(Clone, Copy)]
struct Links {
    older: u32,
    newer: u32,
}

impl Links {
    const NONE: Self = Self { older: NO_SESSION, newer: NO_SESSION };
}

/// The sessions of one processor.
pub(crate) struct Sessions {
    records: RefCell<Vec<Option<Record>>>,
    free: RefCell<Vec<u32>>,
    /// By slot; of slots that are in no session without meaning. Not in the headers, where most
    /// operations have no use for them.
    links: RefCell<Vec<Links>>,
    /// The records of groups, by the groups' names. A tree, since it hashes nothing.
    pub(crate) named: RefCell<BTreeMap<usize, u32>>,
    /// The session that an invocation made now belongs to: the running operation's.
    current: Cell<u32>,
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            records: RefCell::default(),
            free: RefCell::default(),
            links: RefCell::default(),
            named: RefCell::default(),
            current: Cell::new(NO_SESSION),
        }
    }
}

impl Sessions {
    #[inline]
    pub(crate) fn current(&self) -> u32 {
        self.current.get()
    }

    #[inline]
    pub(crate) fn enter(&self, session: u32) {
        self.current.set(session);
    }

    #[inline]
    pub(crate) fn has_ended(&self, session: u32) -> bool {
        session != NO_SESSION && self.with(session, |record| record.ended)
    }

    pub(crate) fn join(&self, processor: &Processor, slot: Slot, session: u32) {
        let index = slot.name.get().index();
        let older = self.with(session, |record| {
            record.operations += 1;
            std::mem::replace(&mut record.youngest, index)
        });
        slot.session.set(session);
        let mut links = self.links.borrow_mut();
        if links.len() <= index as usize {
            links.resize(processor.slab().capacity() as usize, Links::NONE);
        }
        links[index as usize] = Links { older, newer: NO_SESSION };
        if let Some(older) = links.get_mut(older as usize) {
            older.newer = index;
        }
    }

    /// Takes an operation that is over out of its session.
    pub(crate) fn leave(&self, slot: Slot) {
        let session = slot.session.replace(NO_SESSION);
        let mut links = self.links.borrow_mut();
        let Links { older, newer } = links[slot.name.get().index() as usize];
        if let Some(older) = links.get_mut(older as usize) {
            older.newer = newer;
        }
        match links.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.with(session, |record| record.youngest = older),
        }
        drop(links);
        self.with(session, |record| record.operations -= 1);
        self.settle(session);
    }

    /// Tells who waits for the end once all is back, and forgets a session that nobody names.
    pub(crate) fn settle(&self, session: u32) {
        let (answers, waiting, forget) = self.with(session, |record| {
            if !record.has_settled() {
                return (Vec::new(), Vec::new(), false);
            }
            let answers = std::mem::take(&mut record.answers);
            match record.owed {
                0 => (answers, std::mem::take(&mut record.waiting), record.handles == 0),
                _ => (answers, Vec::new(), false),
            }
        });
        if forget {
            self.forget(session);
        }
        answers.into_iter().for_each(|answer| answer.give(()));
        waiting.into_iter().for_each(|waker| contain(|| waker.wake()));
    }

    fn forget(&self, session: u32) {
        let record = self.records.borrow_mut()[session as usize].take();
        self.free.borrow_mut().push(session);
        if let Some(group) = record.and_then(|record| record.group) {
            self.forget_group(&group);
        }
    }

    pub(crate) fn with<R>(&self, session: u32, f: impl FnOnce(&mut Record) -> R) -> R {
        f(self.records.borrow_mut()[session as usize].as_mut().expect("a session that is named"))
    }

    /// What `f` makes of the operations, holds and waiters of each session that has any, or that
    /// nobody names any more.
    pub(crate) fn each<R>(&self, mut f: impl FnMut(usize, usize, usize) -> R) -> Vec<R> {
        let records = self.records.borrow();
        let waiting = |record: &Record| record.waiting.len() + record.owed + record.answers.len();
        let full = |record: &&Record| {
            record.operations + record.holds + waiting(record) > 0 || record.handles == 0
        };
        let records = records.iter().flatten().filter(full);
        records.map(|r| f(r.operations, r.holds, waiting(r))).collect()
    }

    pub(crate) fn create(&self, record: Record) -> u32 {
        let mut records = self.records.borrow_mut();
        match self.free.borrow_mut().pop() {
            Some(index) => {
                records[index as usize] = Some(record);
                index
            }
            None => {
                records.push(Some(record));
                (records.len() - 1) as u32
            }
        }
    }

    /// Gives back who waits for an end, at the processor's own. What others wait for is not answered
    /// any more.
    pub(crate) fn clear(&mut self) -> Vec<Waker> {
        let records = std::mem::take(self.records.get_mut());
        records.into_iter().flatten().flat_map(|record| record.waiting).collect()
    }

    fn end(&self, processor: &Processor, session: u32) {
        // Once is enough: who has ended a group knows of all who took part.
        let (asked, group) = self.with(session, |record| {
            record.ended = true;
            (std::mem::replace(&mut record.asked, true), record.group.clone())
        });
        // Elsewhere first, so that nothing enters there any more while we end what is here.
        if let Some(group) = group.filter(|_| !asked) {
            self.end_elsewhere(processor, session, &group);
        }
        self.end_members(processor, session);
    }

    /// Ends what belongs to the session on this processor.
    pub(crate) fn end_members(&self, processor: &Processor, session: u32) {
        self.with(session, |record| record.ended = true);
        let mut members = Vec::new();
        let mut next = self.with(session, |record| record.youngest);
        while let Some(slot) = processor.slab().get(next) {
            members.push((slot, slot.serial.get()));
            next = self.links.borrow()[next as usize].older;
        }
        processor.end_each(&members);
    }
}

impl Processor {
    /// Runs `f` so that its invocations belong to `session`.
    pub(crate) fn in_session<R>(&self, session: &Session, f: impl FnOnce() -> R) -> R {
        let here = session.0.identity == self.identity();
        assert!(here, "a session is used away from the processor that made it; use it there");
        self.in_record(session.0.index, f)
    }

    /// Runs `f` so that its invocations belong to the session at `index`.
    pub(crate) fn in_record<R>(&self, index: u32, f: impl FnOnce() -> R) -> R {
        struct Leave<'a>(&'a Cell<u32>, u32);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.set(self.1);
            }
        }
        let before = self.sessions.current.replace(index);
        let _leave = Leave(&self.sessions.current, before);
        f()
    }
}

/// A group of operations, over all stages and processors. Handles are cheap, stay on the processor
/// that made them and do not keep the group alive; an operation elsewhere finds its own with
/// [`Session::current`]. A handle may be dropped anywhere. Its methods panic on another processor
/// while its own is there; after that they have nothing to do.
///
/// ```
/// use phalanx_core::{CallError, Session, SharedStage};
///
/// /// Asks two processors, and takes what has come after a while.
/// async fn ask(stage: SharedStage<u32>) {
///     let session = Session::new();
///     let calls = session.scope(|| [stage.call_on(0, |n| async move { *n }),
///                                   stage.call_on(1, |_| std::future::pending())]);
///     phalanx_core::sleep(std::time::Duration::from_millis(5)).await;
///     session.end().await; // nothing of it is left, neither here nor on processor 1
///     let [here, there] = calls;
///     assert_eq!(here.await, Ok(7));
///     assert_eq!(there.await, Err(CallError::Ended));
/// }
/// ```
///
/// ```compile_fail
/// fn leaves_its_thread(session: phalanx_core::Session) {
///     std::thread::spawn(move || drop(session.end())); // a session is not `Send`
/// }
/// ```
#[derive(Clone)]
pub struct Session(Rc<Handle>);

/// What the clones of a handle share, so that they may be made and dropped anywhere on the thread.
struct Handle {
    index: u32,
    identity: u32,
    /// Of one thread.
    _thread: PhantomData<*mut ()>,
}

impl Handle {
    /// None if the processor has ended. Panics elsewhere.
    #[track_caller]
    fn on<R>(&self, f: impl FnOnce(&Processor) -> R) -> Option<R> {
        at_home(self.identity, "a session", f)
    }

    /// Changes the record for something that is dropped, on whichever processor that is.
    fn give_back(&self, change: fn(&mut Record)) {
        let index = self.index;
        let give_back = move |p: &Processor| {
            p.sessions.with(index, change);
            p.sessions.settle(index);
        };
        if processor::on(self.identity, give_back).is_none() {
            send_home(self.identity, give_back);
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.give_back(|record| record.handles -= 1);
    }
}

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}

impl Session {
    /// A new, empty session on this processor.
    ///
    /// # Panics
    /// Outside of a processor.
    pub fn new() -> Self {
        let record = Record { handles: 1, ..Record::default() };
        processor::current(|p| Self::handle(p.sessions.create(record), p))
    }

    /// A handle that the record has already counted.
    fn handle(index: u32, processor: &Processor) -> Self {
        let identity = processor.identity();
        Self(Rc::new(Handle { index, identity, _thread: PhantomData }))
    }

    /// The session of the operation that is running, if it has one.
    pub fn current() -> Option<Self> {
        processor::try_current(|p| {
            let index = p.sessions.current();
            (index != NO_SESSION).then(|| {
                p.sessions.with(index, |record| record.handles += 1);
                Self::handle(index, p)
            })
        })
        .flatten()
    }

    /// Runs `f` so that what it invokes belongs to this session in place of the caller's.
    ///
    /// # Panics
    /// On another processor than that of the handle.
    pub fn scope<R>(&self, f: impl FnOnce() -> R) -> R {
        processor::current(|p| p.in_session(self, f))
    }

    /// Ends every operation of the session, on all processors: suspended ones now, queued ones before they would run,
    /// the caller, if it is one of them, when it next suspends. Later invocations into the session
    /// are refused, on other processors once they have heard of it. Await the answer to know that all resources are back; a caller that is itself of
    /// the session ends at that `await`.
    pub fn end(&self) -> SessionEnd {
        self.0.on(|p| p.sessions.end(p, self.0.index));
        SessionEnd(self.clone())
    }

    /// Runs `f` with the processor that the session is of and its number there, if that is here.
    pub(crate) fn on<R>(&self, f: impl FnOnce(&Processor, u32) -> R) -> Option<R> {
        self.0.on(|p| f(p, self.0.index))
    }

    /// How many operations of the session are alive on this processor; one that was invoked from
    /// here and runs elsewhere is counted here until its result is back.
    pub fn operations(&self) -> usize {
        let index = self.0.index;
        self.0.on(|p| p.sessions.with(index, |record| record.operations)).unwrap_or(0)
    }

    /// Keeps the session's end waiting until the hold is dropped, also if it is awaited elsewhere.
    pub fn hold(&self) -> Hold {
        let index = self.0.index;
        let counted = self.0.on(|p| p.sessions.with(index, |record| record.holds += 1));
        Hold { session: self.clone(), counted: counted.is_some() }
    }
}

/// A resource of a session that someone else still has, such as a buffer in the kernel.
#[must_use = "a dropped hold holds nothing"]
pub struct Hold {
    session: Session,
    /// Not so if the session's processor had ended before.
    counted: bool,
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.counted {
            self.session.0.give_back(|record| record.holds -= 1);
        }
    }
}

/// Resolves when an ended session has nothing left.
#[must_use = "the session is ended; await this to know that its resources are back"]
pub struct SessionEnd(Session);

impl Future for SessionEnd {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let handle = &*self.0.0;
        // Cloned before the look: a foreign waker is foreign code.
        let waker = context.waker().clone();
        let done = handle.on(|p| {
            let (done, _unused) = p.sessions.with(handle.index, |record| {
                let done = record.has_settled() && record.owed == 0;
                if done || record.waiting.iter().any(|waiting| waiting.will_wake(&waker)) {
                    // Dropped after the borrow, like any foreign waker.
                    return (done, Some(waker));
                }
                record.waiting.push(waker);
                (false, None)
            });
            done
        });
        if done == Some(false) { Poll::Pending } else { Poll::Ready(()) }
    }
}
