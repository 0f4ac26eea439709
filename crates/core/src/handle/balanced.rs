//! Handles on stages whose operations may run on another processor than their caller's, as the
//! runtime decides: balanced stages ([`crate::processor::policy::steal`]) and exclusive ones with a large state
//! ([`crate::processor::policy::cache_affinity`]). Their invocations wait as parcels in this processor's ring of the stage.

use std::future::Future;
use std::marker::PhantomData;

use crate::error::CallError;
use crate::future::call::Call;
use crate::handle::handles::{Invocation, Key, exclusive, handle, shared};
use crate::processor::processor::{self, Processor};
use crate::session::table::Session;
use crate::state::exclusive::{Exclusive, Shared};

handle! {
    /// A handle on a stage whose operations are run by whichever processor has time.
    ///
    /// ```compile_fail
    /// fn leaves_its_thread(stage: phalanx_core::BalancedStage<u32>, here: std::rc::Rc<u32>) {
    ///     let call = stage.call(move |_| async move { drop(here) }); // a capture is not `Send`
    /// }
    /// ```
    ///
    /// Invocation and result may travel, so both are `Send`; the future between them stays where it
    /// was started.
    ///
    /// Invoking from outside an operation panics; see [`Processor::enter`].
    BalancedStage
}

handle! {
    /// A handle on an exclusive stage whose operations may be sent to where its state is; see
    /// [`StageOptions::state_bytes`](crate::StageOptions::state_bytes).
    ///
    /// ```compile_fail
    /// fn leaves_its_thread(stage: phalanx_core::HomedStage<u32>, here: std::rc::Rc<u32>) {
    ///     let call = stage.call(move |_| async move { drop(here) }); // a capture is not `Send`
    /// }
    /// ```
    ///
    /// Invoking from outside an operation panics; see [`Processor::enter`].
    HomedStage
}

impl<S: Send + Sync + 'static> BalancedStage<S> {
    /// Invokes an operation. It waits in order on this processor until one has time for it.
    #[track_caller]
    pub fn call<F, Fut, T>(&self, operation: F) -> Call<T>
    where
        F: FnOnce(Shared<S>) -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        self.call_from(self.key.invoked(), operation)
    }

    fn call_from<F, Fut, T>(&self, from: Invocation, operation: F) -> Call<T>
    where
        F: FnOnce(Shared<S>) -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        let invocation = move |p: &Processor, stage| operation(shared(p, stage));
        processor::current(|p| p.call_by_parcel(from, p.index(), invocation))
    }

    /// Invokes an operation that nobody waits for.
    ///
    /// # Errors
    /// As [`SharedStage::dispatch`](crate::SharedStage::dispatch).
    #[track_caller]
    pub fn dispatch<F, Fut>(&self, operation: F) -> Result<(), CallError>
    where
        F: FnOnce(Shared<S>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        self.call(operation).detach()
    }

    /// As [`call`](Self::call), into `session` in place of the caller's own.
    ///
    /// # Panics
    /// If the session's handle is another processor's.
    #[track_caller]
    pub fn call_in<F, Fut, T>(&self, session: &Session, operation: F) -> Call<T>
    where
        F: FnOnce(Shared<S>) -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        let from = self.key.invoked();
        session.scope(|| self.call_from(from, operation))
    }

    /// As [`dispatch`](Self::dispatch), into `session` in place of the caller's own.
    ///
    /// # Errors
    /// As [`SharedStage::dispatch_in`](crate::SharedStage::dispatch_in).
    ///
    /// # Panics
    /// As [`call_in`](Self::call_in).
    #[track_caller]
    pub fn dispatch_in<F, Fut>(&self, session: &Session, operation: F) -> Result<(), CallError>
    where
        F: FnOnce(Shared<S>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        let from = self.key.invoked();
        session.scope(|| self.call_from(from, operation)).detach()
    }
}

impl<S: Send + 'static> HomedStage<S> {
    /// Invokes an operation; it runs in a cohort under the stage's lock, here or where the state is.
    #[track_caller]
    pub fn call<F, Fut, T>(&self, operation: F) -> Call<T>
    where
        F: FnOnce(Exclusive<S>) -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        self.call_from(self.key.invoked(), operation)
    }

    fn call_from<F, Fut, T>(&self, from: Invocation, operation: F) -> Call<T>
    where
        F: FnOnce(Exclusive<S>) -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        let invocation = move |p: &Processor, stage| operation(exclusive(p, stage));
        processor::current(|p| p.call_by_parcel(from, p.index(), invocation))
    }

    /// Invokes an operation that nobody waits for.
    ///
    /// # Errors
    /// As [`SharedStage::dispatch`](crate::SharedStage::dispatch).
    #[track_caller]
    pub fn dispatch<F, Fut>(&self, operation: F) -> Result<(), CallError>
    where
        F: FnOnce(Exclusive<S>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        self.call(operation).detach()
    }

    /// As [`call`](Self::call), into `session` in place of the caller's own.
    ///
    /// # Panics
    /// If the session's handle is another processor's.
    #[track_caller]
    pub fn call_in<F, Fut, T>(&self, session: &Session, operation: F) -> Call<T>
    where
        F: FnOnce(Exclusive<S>) -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        let from = self.key.invoked();
        session.scope(|| self.call_from(from, operation))
    }

    /// As [`dispatch`](Self::dispatch), into `session` in place of the caller's own.
    ///
    /// # Errors
    /// As [`SharedStage::dispatch_in`](crate::SharedStage::dispatch_in).
    ///
    /// # Panics
    /// As [`call_in`](Self::call_in).
    #[track_caller]
    pub fn dispatch_in<F, Fut>(&self, session: &Session, operation: F) -> Result<(), CallError>
    where
        F: FnOnce(Exclusive<S>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        let from = self.key.invoked();
        session.scope(|| self.call_from(from, operation)).detach()
    }
}
