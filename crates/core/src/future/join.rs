//! Waiting for several children with one counter: fork and join (tr2001 §5.2.1).
//!
//! The last child wakes the parent once, however many children there are.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::error::CallError;
use crate::future::call::Call;
use crate::operation::join_table::JoinId;
use crate::processor;
use crate::processor::home::run_home;
use crate::processor::operation::notify::join_waker;

mod sealed {
    /// A private trait: only this module implements it.
    pub trait Sealed {}
}

/// Several calls that can be awaited together: a pair or a vector.
pub trait Children: sealed::Sealed {
    /// Their results.
    type Results;

    /// The number of unfinished calls.
    #[doc(hidden)]
    fn unfinished(&self) -> usize;
    /// Makes the unfinished calls wake the counter.
    #[doc(hidden)]
    fn point_at(&self, counter: &Waker);
    /// Takes all results. All calls must be finished.
    #[doc(hidden)]
    fn take_all(&mut self) -> Self::Results;
}

impl<T> sealed::Sealed for Vec<Call<T>> {}

impl<T> Children for Vec<Call<T>> {
    type Results = Vec<Result<T, CallError>>;

    fn unfinished(&self) -> usize {
        self.iter().filter(|call| !call.is_finished()).count()
    }

    fn point_at(&self, counter: &Waker) {
        for call in self.iter().filter(|call| !call.is_finished()) {
            call.set_waiter(counter.clone());
        }
    }

    fn take_all(&mut self) -> Self::Results {
        self.iter_mut().map(|call| call.take().expect("finished")).collect()
    }
}

impl<A, B> sealed::Sealed for (Call<A>, Call<B>) {}

impl<A, B> Children for (Call<A>, Call<B>) {
    type Results = (Result<A, CallError>, Result<B, CallError>);

    fn unfinished(&self) -> usize {
        usize::from(!self.0.is_finished()) + usize::from(!self.1.is_finished())
    }

    fn point_at(&self, counter: &Waker) {
        if !self.0.is_finished() {
            self.0.set_waiter(counter.clone());
        }
        if !self.1.is_finished() {
            self.1.set_waiter(counter.clone());
        }
    }

    fn take_all(&mut self) -> Self::Results {
        (self.0.take().expect("finished"), self.1.take().expect("finished"))
    }
}

/// Waits for all of `children`: a pair of calls, or a vector of them. See [`Join`].
pub fn join<C: Children>(children: C) -> Join<C> {
    Join { calls: children, wait: None }
}

/// The future of [`join`]. When the last child is over, it resolves to all results, in the order of the calls.
#[must_use = "futures do nothing unless awaited"]
pub struct Join<C: Children> {
    calls: C,
    /// The counter, and the processor that owns it.
    wait: Option<(JoinId, u32)>,
}

impl<C: Children> Join<C> {
    fn close(&mut self) {
        let Some((name, identity)) = self.wait.take() else { return };
        run_home(identity, move |processor| processor.waiting.joins.close(name));
    }
}

// A join contains no pointers into itself.
impl<C: Children> Unpin for Join<C> {}

impl<C: Children> Future for Join<C> {
    type Output = C::Results;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Copied before the children are checked: cloning a foreign waker runs foreign code.
        let parent = context.waker().clone();
        let children = self.calls.unfinished();
        if children == 0 {
            self.close();
            return Poll::Ready(self.calls.take_all());
        }
        processor::current(|processor| {
            let identity = processor.identity;
            if self.wait.is_some_and(|wait| wait.1 != identity) {
                self.close();
            }
            let before = self.wait.map(|wait| wait.0);
            let name = processor.waiting.joins.await_arrivals(before, children, parent);
            self.wait = Some((name, identity));
            self.calls.point_at(&join_waker(name));
            // Setting the waker dropped a child's previous waker, whose foreign code may have cancelled another child.
            if self.calls.unfinished() < children {
                context.waker().wake_by_ref();
            }
        });
        Poll::Pending
    }
}

impl<C: Children> Drop for Join<C> {
    fn drop(&mut self) {
        self.close();
    }
}
