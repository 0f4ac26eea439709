//! Invoking operations on exclusive stages; see [`crate::state::exclusive`] for how they reach the state.

use std::future::Future;

use crate::error::CallError;
use crate::future::call::Call;
use crate::future::session::Session;
use crate::handle::handles::{ExclusiveStage, exclusive};
use crate::processor;
use crate::stage::key::Invocation;
use crate::state::exclusive::Exclusive;

impl<S: Send + 'static> ExclusiveStage<S> {
    /// Invokes an operation on this processor; it runs in a cohort under the stage's lock.
    #[inline]
    #[track_caller]
    pub fn call<F, Fut, T>(&self, operation: F) -> Call<T>
    where
        F: FnOnce(Exclusive<S>) -> Fut + 'static,
        Fut: Future<Output = T> + 'static,
        T: 'static,
    {
        self.call_from(self.key.invoked(), operation)
    }

    /// Invokes an operation that nobody waits for.
    ///
    /// # Errors
    /// As [`SharedStage::dispatch`](crate::SharedStage::dispatch).
    #[inline]
    #[track_caller]
    pub fn dispatch<F, Fut>(&self, operation: F) -> Result<(), CallError>
    where
        F: FnOnce(Exclusive<S>) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        self.dispatch_from(self.key.invoked(), operation)
    }

    /// Like [`call`](Self::call), in `session` instead of the caller's own.
    ///
    /// # Panics
    /// If the session's handle is another processor's.
    #[track_caller]
    pub fn call_in<F, Fut, T>(&self, session: &Session, operation: F) -> Call<T>
    where
        F: FnOnce(Exclusive<S>) -> Fut + 'static,
        Fut: Future<Output = T> + 'static,
        T: 'static,
    {
        let from = self.key.invoked();
        session.scope(|| self.call_from(from, operation))
    }

    /// Like [`dispatch`](Self::dispatch), in `session` instead of the caller's own.
    ///
    /// # Errors
    /// As [`SharedStage::dispatch_in`](crate::SharedStage::dispatch_in).
    ///
    /// # Panics
    /// As [`call_in`](Self::call_in).
    #[track_caller]
    pub fn dispatch_in<F, Fut>(&self, session: &Session, operation: F) -> Result<(), CallError>
    where
        F: FnOnce(Exclusive<S>) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        let from = self.key.invoked();
        session.scope(|| self.dispatch_from(from, operation))
    }

    #[inline(always)]
    fn call_from<F, Fut, T>(&self, from: Invocation, operation: F) -> Call<T>
    where
        F: FnOnce(Exclusive<S>) -> Fut + 'static,
        Fut: Future<Output = T> + 'static,
        T: 'static,
    {
        processor::current(move |p| {
            Call::here(p, from, move |p, stage| operation(exclusive(p, stage)))
        })
    }

    #[inline(always)]
    fn dispatch_from<F, Fut>(&self, from: Invocation, operation: F) -> Result<(), CallError>
    where
        F: FnOnce(Exclusive<S>) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        processor::current(move |p| {
            p.dispatch(from, move |p, stage| operation(exclusive(p, stage)))
        })
    }
}
