//! Typed handles on stages, through which operations are invoked.
//!
//! # Safety
//! A handle's type is that of its stage's state: both are made by the same declaration, and a
//! handle is invariant in the type, so that it cannot pass for one on a sub- or supertype. Its key is
//! checked against the processor's graph when it is used; an invocation's `stage` is that of the key.

use std::future::Future;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use crate::call::Call;
use crate::error::CallError;
use crate::policy::{Exclusive, LocalExclusive, Partition, Partitions, Shared, owner};
use crate::processor::{self, Processor};
use crate::room::Room;
use crate::session::Session;

/// Which stage of which graph, in one word: it travels in every invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(u64);

impl Key {
    pub(crate) fn new(graph: u64, stage: u8) -> Self {
        assert!(graph >> 56 == 0, "fewer than 2⁵⁶ graphs in the life of a process");
        Self(graph << 8 | u64::from(stage))
    }

    #[inline]
    pub(crate) fn graph(self) -> u64 {
        self.0 >> 8
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
            state: PhantomData<fn(S) -> S>,
        }

        impl<S> $name<S> {
            pub(crate) fn new(key: Key) -> Self {
                Self { key, state: PhantomData }
            }

            /// Whether fewer operations are queued at the stage, on this processor, than its
            /// [capacity](crate::StageOptions::capacity).
            pub fn has_room(&self) -> bool {
                processor::current(|p| p.has_room(self.key))
            }

            /// Waits until the stage has room on this processor; see [`Room`].
            pub fn room(&self) -> Room {
                Room::new(self.key)
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
    /// ```compile_fail
    /// fn leaves_its_thread(stage: phalanx_core::PartitionedStage<u32>, here: std::rc::Rc<u32>) {
    ///     let call = stage.call(1, move |_| async move { drop(here) }); // a capture is not `Send`
    /// }
    /// ```
    ///
    /// ```compile_fail
    /// // Nor can a handle pass for one on a subtype of the state, which would be written to.
    /// type Any = for<'a> fn(&'a str) -> &'a str;
    /// type Static = fn(&'static str) -> &'static str;
    /// fn narrow(stage: phalanx_core::PartitionedStage<Any>) -> phalanx_core::PartitionedStage<Static> {
    ///     stage
    /// }
    /// ```
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
    #[inline]
    pub fn call<F, Fut, T>(&self, operation: F) -> Call<T>
    where
        F: FnOnce(Shared<S>) -> Fut + 'static,
        Fut: Future<Output = T> + 'static,
        T: 'static,
    {
        processor::current(|p| p.call(self.key, move |p, stage| operation(shared(p, stage))))
    }

    /// Invokes an operation that nobody waits for (DispatchChildren in tr2001 §5.2.1).
    ///
    /// # Errors
    /// [`CallError::Full`] or [`CallError::Ended`] when it was not taken.
    #[inline]
    pub fn dispatch<F, Fut>(&self, operation: F) -> Result<(), CallError>
    where
        F: FnOnce(Shared<S>) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        processor::current(|p| p.dispatch(self.key, move |p, stage| operation(shared(p, stage))))
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
        let invocation = move |p: &Processor, stage| operation(shared(p, stage));
        processor::current(|p| p.call_on(self.key, processor, invocation))
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
        processor::current(|p| {
            let partition = self.partitions(p).of_key(key);
            let invocation = move |p: &Processor, stage| {
                // SAFETY: the stage is this handle's (top of the file).
                operation(unsafe { p.state::<Partitions<S>>(stage) }.get(partition))
            };
            p.call_on(self.key, owner(partition, p.processors()), invocation)
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
            let partition = self.partitions(p).of_key(key);
            owner(partition, p.processors()) == p.index()
        })
    }

    #[track_caller]
    fn partitions<'p>(&self, processor: &'p Processor) -> &'p Partitions<S> {
        processor.check(self.key);
        // SAFETY: the key was checked and is this handle's (top of the file).
        unsafe { processor.state(self.key.stage()) }
    }
}

impl<S: Send + 'static> ExclusiveStage<S> {
    /// Invokes an operation on this processor; it runs in a cohort under the stage's lock.
    #[inline]
    pub fn call<F, Fut, T>(&self, operation: F) -> Call<T>
    where
        F: FnOnce(Exclusive<S>) -> Fut + 'static,
        Fut: Future<Output = T> + 'static,
        T: 'static,
    {
        processor::current(|p| p.call(self.key, move |p, stage| operation(exclusive(p, stage))))
    }

    /// Invokes an operation that nobody waits for.
    ///
    /// # Errors
    /// As [`SharedStage::dispatch`].
    #[inline]
    pub fn dispatch<F, Fut>(&self, operation: F) -> Result<(), CallError>
    where
        F: FnOnce(Exclusive<S>) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        processor::current(|p| p.dispatch(self.key, move |p, stage| operation(exclusive(p, stage))))
    }
}

/// The state of the shared stage whose operation starts.
#[inline(always)]
fn shared<S: 'static>(processor: &Processor, stage: u8) -> Shared<S> {
    // SAFETY: called by the invocations of shared stages' handles only (top of the file).
    Shared(unsafe { processor.state_rc::<Arc<S>>(stage) })
}

/// The state of the exclusive stage whose operation starts.
#[inline(always)]
fn exclusive<S: 'static>(processor: &Processor, stage: u8) -> Exclusive<S> {
    // SAFETY: called by the invocations of exclusive stages' handles only (top of the file).
    Exclusive(unsafe { processor.state::<Rc<LocalExclusive<S>>>(stage) }.clone())
}
