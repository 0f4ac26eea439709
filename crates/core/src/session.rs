//! Sessions: groups of operations that are ended together (SessionKey in tr2001 §5.2.1).
//!
//! An operation belongs to the session of the operation that invoked it, unless it was dispatched
//! into another. Ending a session ends its operations, the youngest first, so children before their
//! parents. The end is complete when every operation is gone, every child on another processor has
//! come home, and every [`Hold`] (a buffer that the kernel still has) is given back.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::operation::{NO_SESSION, Slot};
use crate::processor::{self, Processor};
use crate::rendezvous::contain;

struct Record {
    /// The youngest operation's slot; the list goes on through the headers.
    youngest: u32,
    operations: usize,
    holds: usize,
    handles: usize,
    ended: bool,
    waiting: Vec<Waker>,
}

/// The sessions of one processor.
pub(crate) struct Sessions {
    records: RefCell<Vec<Option<Record>>>,
    free: RefCell<Vec<u32>>,
    /// The session that an invocation made now belongs to: the running operation's.
    current: Cell<u32>,
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            records: RefCell::default(),
            free: RefCell::default(),
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
        let older = self.with(session, |record| {
            record.operations += 1;
            std::mem::replace(&mut record.youngest, slot.name.get().index())
        });
        slot.session.set(session);
        slot.session_older.set(older);
        slot.session_newer.set(NO_SESSION);
        if let Some(older) = processor.slab().get(older) {
            older.session_newer.set(slot.name.get().index());
        }
    }

    /// Takes an operation that is over out of its session.
    pub(crate) fn leave(&self, processor: &Processor, slot: Slot) {
        let session = slot.session.replace(NO_SESSION);
        let (older, newer) = (slot.session_older.get(), slot.session_newer.get());
        if let Some(older) = processor.slab().get(older) {
            older.session_newer.set(newer);
        }
        match processor.slab().get(newer) {
            Some(newer) => newer.session_older.set(older),
            None => self.with(session, |record| record.youngest = older),
        }
        self.with(session, |record| record.operations -= 1);
        self.settle(session);
    }

    /// Tells who waits for the end once all is back, and forgets a session that nobody names.
    fn settle(&self, session: u32) {
        let (waiting, forget) = self.with(session, |record| {
            if record.operations > 0 || record.holds > 0 {
                return (Vec::new(), false);
            }
            (std::mem::take(&mut record.waiting), record.handles == 0)
        });
        if forget {
            self.records.borrow_mut()[session as usize] = None;
            self.free.borrow_mut().push(session);
        }
        waiting.into_iter().for_each(|waker| contain(|| waker.wake()));
    }

    fn with<R>(&self, session: u32, f: impl FnOnce(&mut Record) -> R) -> R {
        f(self.records.borrow_mut()[session as usize].as_mut().expect("a session that is named"))
    }

    fn create(&self) -> u32 {
        let record = Record {
            youngest: NO_SESSION,
            operations: 0,
            holds: 0,
            handles: 1,
            ended: false,
            waiting: Vec::new(),
        };
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

    fn end(&self, processor: &Processor, session: u32) {
        self.with(session, |record| record.ended = true);
        let mut members = Vec::new();
        let mut next = self.with(session, |record| record.youngest);
        while let Some(slot) = processor.slab().get(next) {
            members.push((slot, slot.name.get()));
            next = slot.session_older.get();
        }
        processor.end_each(&members);
    }
}

impl Processor {
    /// Runs `f` so that its invocations belong to `session`.
    pub(crate) fn in_session<R>(&self, session: &Session, f: impl FnOnce() -> R) -> R {
        struct Leave<'a>(&'a Cell<u32>, u32);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.set(self.1);
            }
        }
        assert_eq!(session.0.identity, self.identity(), "a session belongs to one processor");
        let before = self.sessions.current.replace(session.0.index);
        let _leave = Leave(&self.sessions.current, before);
        f()
    }
}

/// A group of operations on one processor. Handles are cheap and do not keep the group alive.
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
    fn on<R>(&self, f: impl FnOnce(&Processor) -> R) -> Option<R> {
        processor::on(self.identity, f)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.on(|p| {
            p.sessions.with(self.index, |record| record.handles -= 1);
            p.sessions.settle(self.index);
        });
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
        processor::current(|p| Self::handle(p.sessions.create(), p))
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

    /// Ends every operation of the session: suspended ones now, queued ones before they would run,
    /// the caller, if it is one of them, when it next suspends. Later invocations into the session
    /// are refused. Await the answer to know that all resources are back; a caller that is itself of
    /// the session ends at that `await`.
    pub fn end(&self) -> SessionEnd {
        self.0.on(|p| p.sessions.end(p, self.0.index));
        SessionEnd(self.clone())
    }

    /// How many operations of the session are alive.
    pub fn operations(&self) -> usize {
        let index = self.0.index;
        self.0.on(|p| p.sessions.with(index, |record| record.operations)).unwrap_or(0)
    }

    /// Keeps the session's end waiting until the hold is dropped.
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
    /// Not so if it was made where the session's processor was out of reach.
    counted: bool,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let handle = &*self.session.0;
        if self.counted {
            handle.on(|p| {
                p.sessions.with(handle.index, |record| record.holds -= 1);
                p.sessions.settle(handle.index);
            });
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
            p.sessions.with(handle.index, |record| {
                let done = record.operations == 0 && record.holds == 0;
                if !done && !record.waiting.iter().any(|waiting| waiting.will_wake(&waker)) {
                    record.waiting.push(waker);
                }
                done
            })
        });
        if done == Some(false) { Poll::Pending } else { Poll::Ready(()) }
    }
}
