//! Waiting for several children with one counter: fork and join (tr2001 §5.2.1).
//!
//! The parent is re-enabled once, by the last child, however many there are.
//!
//! # Safety
//! The children's waiters point to the join's counter. The join is pinned while they do, it owns the
//! calls, and `calls` is declared before `rendezvous`: dropping the join drops the calls first, and
//! each of them clears its child's waiter.

use std::future::Future;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};

use crate::call::Call;
use crate::error::CallError;
use crate::processor;
use crate::rendezvous::{Rendezvous, Waiter};

/// Several calls that can be waited for together.
pub trait Children {
    /// Their results.
    type Results;

    /// How many are not finished.
    #[doc(hidden)]
    fn unfinished(&self) -> usize;
    /// Points the unfinished ones at the counter.
    #[doc(hidden)]
    fn point_at(&self, rendezvous: NonNull<Rendezvous>);
    /// All results; none may be unfinished.
    #[doc(hidden)]
    fn take_all(&mut self) -> Self::Results;
}

impl<T> Children for Vec<Call<T>> {
    type Results = Vec<Result<T, CallError>>;

    fn unfinished(&self) -> usize {
        self.iter().filter(|call| !call.is_finished()).count()
    }

    fn point_at(&self, rendezvous: NonNull<Rendezvous>) {
        for call in self.iter().filter(|call| !call.is_finished()) {
            call.set_waiter(Waiter::Join(rendezvous));
        }
    }

    fn take_all(&mut self) -> Self::Results {
        self.iter_mut().map(|call| call.take().expect("finished")).collect()
    }
}

impl<A, B> Children for (Call<A>, Call<B>) {
    type Results = (Result<A, CallError>, Result<B, CallError>);

    fn unfinished(&self) -> usize {
        usize::from(!self.0.is_finished()) + usize::from(!self.1.is_finished())
    }

    fn point_at(&self, rendezvous: NonNull<Rendezvous>) {
        if !self.0.is_finished() {
            self.0.set_waiter(Waiter::Join(rendezvous));
        }
        if !self.1.is_finished() {
            self.1.set_waiter(Waiter::Join(rendezvous));
        }
    }

    fn take_all(&mut self) -> Self::Results {
        (self.0.take().expect("finished"), self.1.take().expect("finished"))
    }
}

/// Waits for all of `children`: a pair of calls, or a vector of them. See [`Join`].
pub fn join<C: Children>(children: C) -> Join<C> {
    Join { calls: children, rendezvous: Rendezvous::default(), _pinned: PhantomPinned }
}

/// The future of [`join`]: resolves to all results, in the order of the calls, when the last child
/// is over.
#[must_use = "futures do nothing unless awaited"]
pub struct Join<C: Children> {
    calls: C,
    rendezvous: Rendezvous,
    _pinned: PhantomPinned,
}

impl<C: Children> Future for Join<C> {
    type Output = C::Results;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: nothing is moved out of the join.
        let this = unsafe { self.get_unchecked_mut() };
        let children = this.calls.unfinished();
        if children == 0 {
            return Poll::Ready(this.calls.take_all());
        }
        let parent = processor::current(|p| Waiter::new(p, context.waker()));
        this.rendezvous.await_arrivals(children, parent);
        this.calls.point_at(NonNull::from(&this.rendezvous));
        Poll::Pending
    }
}
