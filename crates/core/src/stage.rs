//! Typed handles on stages, through which operations are invoked.

use std::future::Future;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use crate::call::Call;
use crate::error::CallError;
use crate::policy::{Exclusive, LocalExclusive, Partition, Partitions, Shared, owner};
use crate::processor::{self, Processor};
use crate::session::Session;

/// Which stage of which graph, in one word: it travels in every invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(u64);

impl Key {
    pub(crate) fn new(graph: u32, stage: u8) -> Self {
        Self(u64::from(graph) << 8 | u64::from(stage))
    }

    #[inline]
    pub(crate) fn graph(self) -> u32 {
        (self.0 >> 8) as u32
    }

    #[inline]
    pub(crate) fn stage(self) -> u8 {
        self.0 as u8
    }
}

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        pub struct $name<S> {
            key: Key,
            state: PhantomData<fn() -> S>,
        }

        impl<S> $name<S> {
            pub(crate) fn new(key: Key) -> Self {
                Self { key, state: PhantomData }
            }
        }

        impl<S> Clone for $name<S> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<S> Copy for $name<S> {}
    };
}

handle! {
    /// A handle on a stage whose operations run on all processors at once.
    ///
    /// Operations stay on the processor that invokes them, so neither they nor their results need
    /// be `Send`.
    ///
    /// Invoking from outside an operation panics; see [`Processor::enter`].
    SharedStage
}

handle! {
    /// A handle on a stage whose state is divided among the processors by key.
    ///
    /// The invocation travels to the key's processor, the result back: both are `Send`; the future
    /// between them never moves and need not be.
    ///
    /// Invoking from outside an operation panics; see [`Processor::enter`].
    PartitionedStage
}

handle! {
    /// A handle on a stage of which one processor at a time runs a cohort.
    ///
    /// Operations stay on the processor that invokes them.
    ///
    /// Invoking from outside an operation panics; see [`Processor::enter`].
    ExclusiveStage
}

impl<S: Send + Sync + 'static> SharedStage<S> {
    /// Invokes an operation on this processor. It runs after the caller has suspended or finished.
    /// Await the call for its result; dropping the call lets the operation run on for nobody.
    pub fn call<F, Fut, T>(&self, operation: F) -> Call<T>
    where
        F: FnOnce(Shared<S>) -> Fut + 'static,
        Fut: Future<Output = T> + 'static,
        T: 'static,
    {
        let key = self.key;
        processor::current(|p| p.call(key, move |p| operation(Shared(p.state_rc::<Arc<S>>(key)))))
    }

    /// Invokes an operation that nobody waits for (DispatchChildren in tr2001 §5.2.1).
    ///
    /// # Errors
    /// [`CallError::Full`] or [`CallError::Ended`] when it was not taken.
    pub fn dispatch<F, Fut>(&self, operation: F) -> Result<(), CallError>
    where
        F: FnOnce(Shared<S>) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        let key = self.key;
        processor::current(|p| {
            p.dispatch(key, move |p| operation(Shared(p.state_rc::<Arc<S>>(key))))
        })
    }

    /// As [`dispatch`](Self::dispatch), into `session` in place of the caller's own.
    ///
    /// # Errors
    /// As there; [`CallError::Ended`] if the session has ended.
    pub fn dispatch_in<F, Fut>(&self, session: &Session, operation: F) -> Result<(), CallError>
    where
        F: FnOnce(Shared<S>) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        processor::current(|p| p.in_session(session, || self.dispatch(operation)))
    }

    /// As [`call`](Self::call), on the processor numbered `processor`.
    ///
    /// # Panics
    /// If there is no such processor.
    pub fn call_on<F, Fut, T>(&self, processor: usize, operation: F) -> Call<T>
    where
        F: FnOnce(Shared<S>) -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        let key = self.key;
        let invocation = move |p: &Processor| operation(Shared(p.state_rc::<Arc<S>>(key)));
        processor::current(|p| p.call_on(key, processor, invocation))
    }
}

impl<S: 'static> PartitionedStage<S> {
    /// Invokes an operation on the partition of `key`, on the processor that owns it.
    pub fn call<F, Fut, T>(&self, key: u64, operation: F) -> Call<T>
    where
        F: FnOnce(Partition<S>) -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        let stage = self.key;
        processor::current(|p| {
            let partition = p.state::<Partitions<S>>(stage).of_key(key);
            let invocation =
                move |p: &Processor| operation(p.state::<Partitions<S>>(stage).get(partition));
            p.call_on(stage, owner(partition, p.processors()), invocation)
        })
    }

    /// Invokes an operation that nobody waits for.
    ///
    /// # Errors
    /// As [`SharedStage::dispatch`].
    pub fn dispatch<F, Fut>(&self, key: u64, operation: F) -> Result<(), CallError>
    where
        F: FnOnce(Partition<S>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        self.call(key, operation).detach()
    }

    /// Whether this processor owns the partition of `key`: a call there stays here.
    pub fn is_local(&self, key: u64) -> bool {
        processor::current(|p| {
            let partition = p.state::<Partitions<S>>(self.key).of_key(key);
            owner(partition, p.processors()) == p.index()
        })
    }
}

impl<S: Send + 'static> ExclusiveStage<S> {
    /// Invokes an operation on this processor; it runs in a cohort under the stage's lock.
    pub fn call<F, Fut, T>(&self, operation: F) -> Call<T>
    where
        F: FnOnce(Exclusive<S>) -> Fut + 'static,
        Fut: Future<Output = T> + 'static,
        T: 'static,
    {
        let key = self.key;
        processor::current(|p| p.call(key, move |p| operation(exclusive(p, key))))
    }

    /// Invokes an operation that nobody waits for.
    ///
    /// # Errors
    /// As [`SharedStage::dispatch`].
    pub fn dispatch<F, Fut>(&self, operation: F) -> Result<(), CallError>
    where
        F: FnOnce(Exclusive<S>) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        let key = self.key;
        processor::current(|p| p.dispatch(key, move |p| operation(exclusive(p, key))))
    }
}

fn exclusive<S: 'static>(processor: &Processor, key: Key) -> Exclusive<S> {
    Exclusive(processor.state::<Rc<LocalExclusive<S>>>(key).clone())
}
