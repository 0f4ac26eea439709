//! Invoking operations that stay on the processor: on shared and on exclusive stages.
//!
//! # Safety
//! A handle has the policy of its stage ([`crate::handle::stage`]). [`invocation`] is only used with the key of such a
//! handle.

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

use crate::error::CallError;
use crate::future::call::Call;
use crate::handle::stage::Stage;
use crate::processor;
use crate::processor::processor::Processor;
use crate::stage::key::CallSite;
use crate::state::exclusive::{Exclusive, LocalExclusive, Shared};

/// A stage whose operations run on the processor that invokes them, on all processors at once.
///
/// Operations stay on their processor, so neither they nor their results need be `Send`.
pub type SharedStage<S> = Stage<Shared<S>>;

/// A stage whose cohorts run on one processor at a time. Operations stay on the processor that invokes them.
pub type ExclusiveStage<S> = Stage<Exclusive<S>>;

/// The access of an operation that runs on its caller's processor to the state of its stage.
pub trait LocalAccess: sealed::Sealed + Sized + 'static {
    /// Returns the access for an operation of `stage` that is about to start.
    ///
    /// # Safety
    /// The stage numbered `stage` was declared with this policy.
    #[doc(hidden)]
    unsafe fn access(processor: &Processor, stage: u8) -> Self;
}

mod sealed {
    pub trait Sealed {}
}

impl<S> sealed::Sealed for Shared<S> {}

impl<S: Send + Sync + 'static> LocalAccess for Shared<S> {
    #[inline(always)]
    unsafe fn access(processor: &Processor, stage: u8) -> Self {
        // SAFETY: the caller guarantees that the stage is shared, so its local state is the `Arc`.
        Self(unsafe { processor.state_rc::<Arc<S>>(stage) })
    }
}

impl<S> sealed::Sealed for Exclusive<S> {}

impl<S: Send + 'static> LocalAccess for Exclusive<S> {
    #[inline(always)]
    unsafe fn access(processor: &Processor, stage: u8) -> Self {
        // SAFETY: the caller guarantees that the stage is exclusive, so its local state has this type.
        Self(unsafe { processor.state::<Rc<LocalExclusive<S>>>(stage) }.clone())
    }
}

/// The invocation that runs `operation` with the state of a stage of policy `A`. The key must be that of such a stage's
/// handle.
#[inline(always)]
pub(crate) fn invocation<A, F, Fut>(operation: F) -> impl FnOnce(&Processor, u8) -> Fut
where
    A: LocalAccess,
    F: FnOnce(A) -> Fut,
{
    // SAFETY: a handle has the policy of its stage ([`crate::handle::stage`]).
    move |processor, stage| operation(unsafe { A::access(processor, stage) })
}

macro_rules! invoke_locally {
    ($policy:ident: $($bound:ident)+) => {
        impl<S: $($bound +)+ 'static> Stage<$policy<S>> {
            /// Invokes an operation on this processor. It runs after the caller has suspended or finished. Await the
            /// call for its result. Dropping the call does not cancel the operation.
            #[inline]
            #[track_caller]
            pub fn call<F, Fut, T>(&self, operation: F) -> Call<T>
            where
                F: FnOnce($policy<S>) -> Fut + 'static,
                Fut: Future<Output = T> + 'static,
                T: 'static,
            {
                let call_site = self.key().call_site();
                processor::current(move |p| Call::new(p, p.call(call_site, invocation(operation))))
            }

            /// Invokes an operation whose result nobody awaits (an *orphan* of tr2001 §5.2.1). It starts after the
            /// caller has suspended or finished.
            ///
            /// # Errors
            /// [`CallError::Full`] or [`CallError::Cancelled`] if the invocation was rejected.
            #[inline]
            #[track_caller]
            pub fn dispatch<F, Fut>(&self, operation: F) -> Result<(), CallError>
            where
                F: FnOnce($policy<S>) -> Fut + 'static,
                Fut: Future<Output = ()> + 'static,
            {
                self.dispatch_from(self.key().call_site(), operation)
            }

            /// Like [`dispatch`](Self::dispatch), but invoked at `call_site`.
            #[inline(always)]
            pub(crate) fn dispatch_from<F, Fut>(
                &self,
                call_site: CallSite,
                operation: F,
            ) -> Result<(), CallError>
            where
                F: FnOnce($policy<S>) -> Fut + 'static,
                Fut: Future<Output = ()> + 'static,
            {
                processor::current(move |p| p.dispatch(call_site, invocation(operation)))
            }
        }
    };
}

invoke_locally!(Shared: Send Sync);
invoke_locally!(Exclusive: Send);

impl<S: Send + Sync + 'static> Stage<Shared<S>> {
    /// Like [`call`](Self::call), but on the processor with index `processor`.
    ///
    /// # Panics
    /// If there is no such processor.
    #[track_caller]
    pub fn call_on<F, Fut, T>(&self, processor: usize, operation: F) -> Call<T>
    where
        F: FnOnce(Shared<S>) -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        let call_site = self.key().call_site();
        processor::current(|p| Call::new(p, p.call_on(call_site, processor, invocation(operation))))
    }
}
