//! The handle of a session.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::operation::state::NO_SESSION;
use crate::processor;
use crate::processor::home::{at_home, send_home};
use crate::processor::processor::Processor;
use crate::session::table::Record;

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
///     assert_eq!(there.await, Err(CallError::Cancelled));
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

    /// Gives something of the session back, on whichever processor this runs.
    fn give_back(&self, change: fn(&mut Record)) {
        let index = self.index;
        let give_back = move |p: &Processor| p.release_session(index, change);
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
        processor::current(|p| Self::handle(p.waiting.sessions.create(Record::of_handle()), p))
    }

    /// A handle that the record has already counted.
    fn handle(index: u32, processor: &Processor) -> Self {
        let identity = processor.identity();
        Self(Rc::new(Handle { index, identity, _thread: PhantomData }))
    }

    /// The session of the operation that is running, if it has one.
    pub fn current() -> Option<Self> {
        processor::try_current(|p| {
            let index = p.waiting.sessions.current();
            (index != NO_SESSION).then(|| {
                p.waiting.sessions.with(index, |record| record.handles += 1);
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
        processor::current(|p| {
            let here = self.0.identity == p.identity();
            assert!(here, "a session is used away from the processor that made it; use it there");
            p.waiting.sessions.within(self.0.index, f)
        })
    }

    /// Ends every operation of the session, on all processors: suspended ones now, queued ones before they would run,
    /// the caller, if it is one of them, when it next suspends. Later invocations into the session
    /// are refused, on other processors once they have heard of it. Await the answer to know that all resources are back; a caller that is itself of
    /// the session ends at that `await`.
    pub fn end(&self) -> SessionEnd {
        self.0.on(|p| p.end_session(self.0.index));
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
        self.0.on(|p| p.waiting.sessions.operations(index)).unwrap_or(0)
    }

    /// Keeps the session's end waiting until the hold is dropped, also if it is awaited elsewhere.
    pub fn guard(&self) -> SessionGuard {
        let index = self.0.index;
        let counted = self.0.on(|p| p.waiting.sessions.hold(index));
        SessionGuard { session: self.clone(), counted: counted.is_some() }
    }
}

/// A resource of a session that someone else still has, such as a buffer in the kernel.
#[must_use = "a dropped hold holds nothing"]
pub struct SessionGuard {
    session: Session,
    /// Not so if the session's processor had ended before.
    counted: bool,
}

impl Drop for SessionGuard {
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
        match handle.on(|p| p.waiting.sessions.wait(handle.index, waker)) {
            Some(true) => Poll::Pending,
            _ => Poll::Ready(()),
        }
    }
}
