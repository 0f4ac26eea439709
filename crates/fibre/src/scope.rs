//! Fibres that borrow from the fibre that starts them.
//!
//! Scoped fibres are part of their parent's operation: whenever the parent waits, its operation polls them too. They
//! share the parent's waker, and end with the parent.
//!
//! # Safety
//! A scoped fibre borrows for `'scope`, and [`Scope::spawn`] extends that to `'static` in order to store it. The list
//! is reached through the scope and through the block of the parent. [`scope`] ends only after [`Finish`] has dropped
//! every child, even when it unwinds, and nothing can add a child after that: references to the scope have ended. A
//! child that is being polled is not in the list, but then the parent waits inside [`scope`], whose frame is below the
//! poll on the same stack: the child is dropped first if the poll unwinds. `'scope` includes the whole call of
//! [`scope`].

use std::any::Any;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use crate::children::{Child, Children};
use crate::control_block::{self, here};
use crate::fibre::{Fibre, wait};
use crate::operation::{FibreFuture, Plain};

/// Starts scoped fibres; see [`Fibre::scope`](crate::Fibre::scope).
pub struct Scope<'scope, 'env: 'scope> {
    children: Rc<Children>,
    /// The number of fibres that panicked and were not joined.
    panicked: Cell<usize>,
    // Invariant in both lifetimes, like `std::thread::Scope`.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// The end of a scope.
struct Finish<'c>(&'c Rc<Children>);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.drop_all();
        control_block::try_running(|block| block.close_scope(self.0));
    }
}

/// Runs `f` with a scope of the running fibre.
#[track_caller]
pub(crate) fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    let children: Rc<Children> = Rc::default();
    let scope = Scope {
        children: children.clone(),
        panicked: Cell::new(0),
        scope: PhantomData,
        env: PhantomData,
    };
    let finish = Finish(&children);
    control_block::try_running(|block| block.open_scope(&children));
    let result = f(&scope);
    if !children.is_empty() {
        wait(poll_fn(|_| if children.is_empty() { Poll::Ready(()) } else { Poll::Pending }));
    }
    drop(finish);
    assert!(scope.panicked.get() == 0, "a scoped fibre panicked");
    result
}

impl<'scope> Scope<'scope, '_> {
    /// Starts a fibre with a stack of the parent's size. It may borrow anything that outlives the scope, and runs when
    /// the parent waits.
    #[track_caller]
    pub fn spawn<F, T>(&'scope self, body: F) -> ScopedFibre<'scope, T>
    where
        F: FnOnce(&Fibre<'_>) -> T + 'scope,
        T: 'scope,
    {
        let (stage, size) = here();
        let result = Rc::new(Cell::new(None));
        let (output, panicked) = (result.clone(), &self.panicked);
        let mut operation = FibreFuture::<F, _>::new(stage, size, Plain(body));
        let child = poll_fn(move |context| {
            let poll = AssertUnwindSafe(|| Pin::new(&mut operation).poll(context));
            let result = match catch_unwind(poll) {
                Ok(Poll::Pending) => return Poll::Pending,
                Ok(Poll::Ready(value)) => Ok(value),
                Err(panic) => {
                    panicked.update(|count| count + 1);
                    Err(panic)
                }
            };
            output.set(Some(result));
            Poll::Ready(())
        });
        let child: Child<'scope> = Box::pin(child);
        // SAFETY: only the lifetime changes; the child is dropped before the scope ends (top of the file).
        let child = unsafe { std::mem::transmute::<Child<'scope>, Child<'static>>(child) };
        self.children.add(child);
        ScopedFibre { result, panicked }
    }
}

type ChildResult<T> = Result<T, Box<dyn Any + Send>>;

/// A fibre of a [`Scope`]. If it is dropped, the scope waits for the fibre.
pub struct ScopedFibre<'scope, T> {
    result: Rc<Cell<Option<ChildResult<T>>>>,
    panicked: &'scope Cell<usize>,
}

impl<T> ScopedFibre<'_, T> {
    /// Waits for the fibre and returns its output.
    ///
    /// # Panics
    /// Resumes the panic of the fibre, if it panicked. Also like [`wait`].
    #[track_caller]
    pub fn join(self) -> T {
        let result = self.result.take().unwrap_or_else(|| {
            wait(poll_fn(|_| self.result.take().map_or(Poll::Pending, Poll::Ready)))
        });
        result.unwrap_or_else(|panic| {
            self.panicked.update(|count| count - 1);
            resume_unwind(panic)
        })
    }
}
