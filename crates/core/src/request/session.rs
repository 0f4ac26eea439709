//! The handle of a session.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::open_scopes::OpenScope;
use crate::operation::state::NO_SESSION;
use crate::processor;
use crate::processor::home::{at_home, run_home};
use crate::processor::processor::Processor;
use crate::session::table::SessionRecord;

/// A group of operations, over all stages and processors. Handles are cheap, stay on the processor that made
/// them and do not keep the group alive. An operation on another processor gets its own handle from
/// [`Session::current`]. A handle may be dropped anywhere. Its methods panic on another processor while the
/// handle's processor exists, and do nothing once that has ended.
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

/// The part shared by the clones of a handle, which may be cloned and dropped anywhere on the thread.
struct Handle {
    index: u32,
    identity: u32,
    /// Not `Send`.
    _thread: PhantomData<*mut ()>,
}

impl Handle {
    /// None if the processor has ended. Panics on another processor.
    #[track_caller]
    fn on<R>(&self, f: impl FnOnce(&Processor) -> R) -> Option<R> {
        at_home(self.identity, "a session", f)
    }

    /// Releases a resource of the session, from any processor.
    fn release(&self, change: fn(&mut SessionRecord)) {
        let index = self.index;
        run_home(self.identity, move |p| p.release_session(index, change));
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.release(|record| record.handles -= 1);
    }
}

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}

impl Session {
    /// Makes a new, empty session on this processor.
    ///
    /// # Panics
    /// Outside of a processor.
    pub fn new() -> Self {
        processor::current(|p| {
            Self::handle(p.waiting.sessions.records.add(SessionRecord::new(1, None)), p)
        })
    }

    /// Makes a handle that the record has already counted.
    fn handle(index: u32, processor: &Processor) -> Self {
        let identity = processor.identity;
        Self(Rc::new(Handle { index, identity, _thread: PhantomData }))
    }

    /// The session of the running operation, if it has one.
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

    /// Runs `f` so that its invocations belong to this session instead of the caller's. A fibre must not wait inside `f`.
    ///
    /// # Panics
    /// On a processor other than that of the handle.
    pub fn scope<R>(&self, f: impl FnOnce() -> R) -> R {
        let _scope = OpenScope::no_suspend();
        processor::current(|p| {
            let here = self.0.identity == p.identity;
            assert!(here, "a session is used away from the processor that made it; use it there");
            p.waiting.sessions.with_current(self.0.index, f)
        })
    }

    /// Ends every operation of the session, on all processors: suspended ones now, queued ones before they
    /// would run, and the caller, if it is one of them, when it next suspends. Later invocations into the
    /// session are rejected; on other processors, as soon as the command has arrived. Await the returned
    /// future to wait until all resources are released. If the caller belongs to the session, it ends at that
    /// `await`.
    pub fn end(&self) -> SessionEnd {
        self.0.on(|p| p.end_session(self.0.index));
        SessionEnd(self.clone())
    }

    /// Runs `f` with the session's processor and the session's number there, if that is the current one.
    pub(crate) fn on<R>(&self, f: impl FnOnce(&Processor, u32) -> R) -> Option<R> {
        self.0.on(|p| f(p, self.0.index))
    }

    /// The number of live operations of the session on this processor. A remote operation that was invoked
    /// here counts until its result has returned.
    pub fn operations(&self) -> usize {
        let index = self.0.index;
        self.0.on(|p| p.waiting.sessions.with(index, |record| record.operations)).unwrap_or(0)
    }

    /// Delays the end of the session until the guard is dropped, on other processors too.
    ///
    /// ```
    /// use phalanx_core::{Session, SessionGuard};
    ///
    /// /// A buffer that a device still writes to when its operation has ended.
    /// struct InUse {
    ///     bytes: Box<[u8]>,
    ///     _guard: Option<SessionGuard>,
    /// }
    ///
    /// fn lend(bytes: Box<[u8]>) -> InUse {
    ///     InUse { bytes, _guard: Session::current().map(|session| session.guard()) }
    /// }
    /// # assert!(lend(Box::new([1]))._guard.is_none() && lend(Box::new([1])).bytes.len() == 1);
    /// ```
    pub fn guard(&self) -> SessionGuard {
        let index = self.0.index;
        let counted = self.0.on(|p| p.waiting.sessions.with(index, |record| record.guards += 1));
        SessionGuard { session: self.clone(), counted: counted.is_some() }
    }
}

/// A resource of a session that is still used elsewhere, such as a buffer in the kernel.
#[must_use = "dropping the guard releases the resource"]
pub struct SessionGuard {
    session: Session,
    /// Does nothing if the session's processor has ended.
    counted: bool,
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        if self.counted {
            self.session.0.release(|record| record.guards -= 1);
        }
    }
}

/// Resolves when all resources of an ended session are released.
#[must_use = "the session has been ended; await this to wait until its resources are released"]
pub struct SessionEnd(Session);

impl Future for SessionEnd {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let handle = &*self.0.0;
        // Cloned before the check: cloning a foreign waker runs foreign code.
        let waker = context.waker().clone();
        match handle.on(|p| p.waiting.sessions.wait(handle.index, waker)) {
            Some(true) => Poll::Pending,
            _ => Poll::Ready(()),
        }
    }
}
