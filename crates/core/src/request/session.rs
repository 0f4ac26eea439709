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
use crate::session::table::{Resource, SessionRecord};

/// A handle of a session, which is a group of operations on any stages and processors that can be cancelled together.
/// Handles are cheap, belong to the processor that created them, and do not keep the operations alive. An operation on
/// another processor gets its own handle from [`Session::current`]. A handle may be dropped anywhere. Outside its
/// processor, its methods panic while that processor exists, and do nothing once it has ended.
///
/// ```
/// use phalanx_core::{CallError, Session, SharedStage};
///
/// /// Asks two processors and cancels the calls that have not finished after 5 ms.
/// async fn ask(stage: SharedStage<u32>) {
///     let session = Session::new();
///     let calls = session.scope(|| [stage.call_on(0, |n| async move { *n }),
///                                   stage.call_on(1, |_| std::future::pending())]);
///     phalanx_core::sleep(std::time::Duration::from_millis(5)).await;
///     session.end().await; // no operation of the session is left on any processor
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

/// The data shared by the clones of a handle.
struct Handle {
    index: u32,
    identity: u32,
    /// Not `Send`.
    _thread: PhantomData<*mut ()>,
}

impl Handle {
    /// Runs `f` on the handle's processor. Returns `None` if that has ended. Panics on another processor.
    #[track_caller]
    fn on<R>(&self, f: impl FnOnce(&Processor) -> R) -> Option<R> {
        at_home(self.identity, "a session", f)
    }

    /// Releases a resource of the session, from any processor.
    fn release(&self, resource: Resource) {
        let index = self.index;
        run_home(self.identity, move |p| p.release_session(index, resource));
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.release(Resource::Handle);
    }
}

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}

impl Session {
    /// Creates an empty session on this processor.
    ///
    /// # Panics
    /// If called outside a processor.
    pub fn new() -> Self {
        processor::current(|p| {
            Self::handle(p.waiting.sessions.records.add(SessionRecord::new(1, None)), p)
        })
    }

    /// Creates a handle that the record has already counted.
    fn handle(index: u32, processor: &Processor) -> Self {
        let identity = processor.identity;
        Self(Rc::new(Handle { index, identity, _thread: PhantomData }))
    }

    /// The session of the running operation, if it has one.
    pub fn current() -> Option<Self> {
        processor::try_current(|p| {
            let index = p.waiting.sessions.current();
            (index != NO_SESSION).then(|| {
                p.waiting.sessions.retain(index, Resource::Handle);
                Self::handle(index, p)
            })
        })
        .flatten()
    }

    /// Runs `f` so that its invocations belong to this session instead of the caller's. A fibre must not suspend inside
    /// `f`.
    ///
    /// # Panics
    /// If called on a processor other than the handle's.
    pub fn scope<R>(&self, f: impl FnOnce() -> R) -> R {
        let _scope = OpenScope::no_suspend();
        processor::current(|p| {
            let here = self.0.identity == p.identity;
            assert!(
                here,
                "a session was used on a processor other than the one that created it; use it there"
            );
            p.waiting.sessions.with_current(self.0.index, f)
        })
    }

    /// Cancels every operation of the session on all processors: suspended operations immediately, queued ones before
    /// they run, and the caller, if it belongs to the session, when it next suspends. Later invocations in the session
    /// are rejected; on other processors, once the command has arrived. Await the returned future to wait until all
    /// resources are released. If the caller belongs to the session, it ends at that `await`.
    pub fn end(&self) -> SessionEnd {
        self.0.on(|p| p.end_session(self.0.index));
        SessionEnd(self.clone())
    }

    /// Runs `f` with the session's processor and the session's number there. Returns `None` if the processor has ended.
    pub(crate) fn on<R>(&self, f: impl FnOnce(&Processor, u32) -> R) -> Option<R> {
        self.0.on(|p| f(p, self.0.index))
    }

    /// The number of live operations of the session on this processor. A remote operation that was invoked
    /// here counts until its result has returned.
    pub fn operations(&self) -> usize {
        let index = self.0.index;
        self.0.on(|p| p.waiting.sessions.operations(index)).unwrap_or(0)
    }

    /// Creates a guard that delays the completion of the session's end, on all processors, until it is dropped.
    ///
    /// ```
    /// use phalanx_core::{Session, SessionGuard};
    ///
    /// /// A buffer that a device may still write to after its operation has ended.
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
        let counted = self.0.on(|p| p.waiting.sessions.retain(index, Resource::Guard));
        SessionGuard { session: self.clone(), counted: counted.is_some() }
    }
}

/// Delays the completion of a session's end while a resource is still in use, such as a buffer in the kernel.
#[must_use = "dropping the guard releases the resource"]
pub struct SessionGuard {
    session: Session,
    /// Whether the session counts this guard. It does not if its processor had ended.
    counted: bool,
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        if self.counted {
            self.session.0.release(Resource::Guard);
        }
    }
}

/// The future of [`Session::end`]. Resolves when all resources of the session are released.
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
