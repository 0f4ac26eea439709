//! Declaring and invoking cohort operations.
//!
//! # Safety
//! A handle has the item and reply types of its stage, because one declaration creates both, here or in
//! `serial_cohort`, and a handle is invariant in them. Its key is checked against the processor's graph when the handle
//! is used.

use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use crate::error::CallError;
use crate::future::call::Call;
use crate::handle::policy::cohort::entry::Cohort;
use crate::handle::policy::cohort::items::ItemHandler;
use crate::handle::policy::remake::counted;
use crate::handle::stage::Stage;
use crate::handle::stage_options::StageOptions;
use crate::processor;
use crate::stage::cohort_handler::CohortHandler;
use crate::stage::declaration::StageParts;
use crate::state::exclusive::{Exclusive, ExclusiveState, LocalExclusive};
use crate::state::partition::spread;
use crate::state::rebuildable::Rebuildable;

/// Makes a type invariant in both parameters.
type Invariant<I, O> = PhantomData<fn(I, O) -> (I, O)>;

/// The policy of a stage of cohort operations: an invocation is an item of type `I`, and its reply is of type `O`.
pub struct Items<I, O>(Invariant<I, O>);

/// The policy of a stage of cohort operations whose items go to the processor that owns their key.
pub struct KeyedItems<I, O>(Invariant<I, O>);

/// A stage of cohort operations: an invocation is an item, and the stage's handler receives all items of a cohort at
/// once ([`StageOptions::cohort`](crate::StageOptions::cohort)). Items stay on the processor that invokes them, unless
/// they are sent by `call_on`.
pub type CohortStage<I, O> = Stage<Items<I, O>>;

/// A stage of cohort operations whose state is partitioned among the processors by key
/// ([`StageOptions::partitioned_cohort`](crate::StageOptions::partitioned_cohort)). An item is sent to the processor
/// that owns its key, and the reply is sent back.
pub type PartitionedCohortStage<I, O> = Stage<KeyedItems<I, O>>;

impl<I: 'static, O: 'static> Stage<Items<I, O>> {
    /// Passes `item` to the stage's next cohort on this processor. Await the call for the reply.
    ///
    /// The call resolves to [`CallError::Panicked`] if the handler panicked before it replied, and to
    /// [`CallError::ReplyDropped`] if the reply was dropped.
    #[track_caller]
    pub fn call(&self, item: I) -> Call<O> {
        let call_site = self.key().call_site();
        // SAFETY: the key is this handle's (top of the file).
        processor::current(|p| Call::new(p, unsafe { p.call_item(call_site, item) }))
    }

    /// Passes an item whose reply nobody awaits.
    ///
    /// # Errors
    /// [`CallError::Full`] or [`CallError::Cancelled`] if the item was rejected.
    #[track_caller]
    pub fn dispatch(&self, item: I) -> Result<(), CallError> {
        let call_site = self.key().call_site();
        // SAFETY: the key is this handle's (top of the file).
        processor::current(|p| unsafe { p.dispatch_item::<I, O>(call_site, item) })
    }

    /// Like [`call`](Self::call), but on the processor with index `processor`.
    ///
    /// # Panics
    /// If there is no such processor.
    #[track_caller]
    pub fn call_on(&self, processor: usize, item: I) -> Call<O>
    where
        I: Send,
        O: Send,
    {
        let call_site = self.key().call_site();
        // SAFETY: the key is this handle's (top of the file).
        processor::current(|p| Call::new(p, unsafe { p.call_item_on(call_site, processor, item) }))
    }
}

impl<I: Send + 'static, O: Send + 'static> Stage<KeyedItems<I, O>> {
    /// Passes `item` to the next cohort on the processor that owns `key`; see [`CohortStage::call`].
    #[track_caller]
    pub fn call(&self, key: u64, item: I) -> Call<O> {
        Stage::<Items<I, O>>::new(self.key()).call_on(self.owner(key), item)
    }

    /// Passes an item whose reply nobody awaits.
    ///
    /// # Errors
    /// The errors of [`CohortStage::dispatch`].
    #[track_caller]
    pub fn dispatch(&self, key: u64, item: I) -> Result<(), CallError> {
        self.call(key, item).detach()
    }

    /// Whether this processor owns `key`, so that a call does not leave the processor.
    pub fn is_local(&self, key: u64) -> bool {
        processor::current(|p| self.owner(key) == p.index())
    }

    fn owner(&self, key: u64) -> usize {
        processor::current(|p| spread(key, p.processors()))
    }
}

impl StageOptions<'_> {
    /// A stage of cohort operations. `handler` receives the whole cohort, as a slice of items with a reply for each,
    /// and a state that `make` creates for each processor from its number. Use it for work that is cheaper for many
    /// items at once: merged reads, group commit, batched lookups.
    ///
    /// The handler is synchronous. It can dispatch asynchronous work (I/O, calls of other stages) as operations and
    /// move the replies into them. These operations belong to no session. All stage options apply. Each item counts as
    /// an operation, and each reply that is kept counts as a suspended operation.
    ///
    /// ```
    /// use phalanx_core::{Cohort, Graph};
    ///
    /// let mut graph = Graph::new();
    /// let lookup = graph.stage("lookup").max_cohort(64).cohort(
    ///     |_processor| vec![2, 3, 5, 7],
    ///     |primes: &mut Vec<u32>, cohort: &mut Cohort<u32, bool>| {
    ///         cohort.sort_by_key(|entry| entry.item); // one pass over the table for all
    ///         let mut at = 0;
    ///         for entry in cohort.iter_mut() {
    ///             at += primes[at..].partition_point(|prime| *prime < entry.item);
    ///             entry.reply(primes.get(at) == Some(&entry.item));
    ///         }
    ///     },
    /// );
    /// # let _ = lookup;
    /// ```
    pub fn cohort<S: 'static, I: 'static, O: 'static>(
        self,
        make: impl Fn(usize) -> S + Send + Sync + 'static,
        handler: impl Fn(&mut S, &mut Cohort<I, O>) + Send + Sync + 'static,
    ) -> CohortStage<I, O> {
        let (stage, name, rebuild) = (self.number(), self.declaration.name, self.rebuild);
        let (make, handler) = (Arc::new(make), Arc::new(handler));
        let key = self.declare(Box::new(move |processor, _| {
            let (make, handler) = (make.clone(), handler.clone());
            let state = make(processor);
            let remake = rebuild.then(|| counted(stage, move || make(processor)));
            let state = Rebuildable::new(name, state, remake);
            let handle =
                move |cohort: &mut Cohort<I, O>| state.with(|state| handler(state, cohort));
            StageParts { state: Rc::new(()), gate: None, handler: Some(item_handler(handle)) }
        }));
        Stage::new(key)
    }

    /// Like [`cohort`](Self::cohort), but for state that is partitioned by key. An item has a key and joins a cohort on
    /// the processor that owns the key. Keys do not move.
    ///
    /// ```
    /// use std::collections::HashMap;
    /// use phalanx_core::{CallError, Cohort, Graph, PartitionedCohortStage};
    ///
    /// let mut graph = Graph::new();
    /// let counts = graph.stage("counts").partitioned_cohort(
    ///     |_processor| HashMap::new(),
    ///     |counts: &mut HashMap<u64, u64>, cohort: &mut Cohort<u64, u64>| {
    ///         for entry in cohort.iter_mut() {
    ///             let count = counts.entry(entry.item).or_insert(0);
    ///             *count += 1;
    ///             entry.reply(*count);
    ///         }
    ///     },
    /// );
    ///
    /// /// Counts a key on the processor that owns it.
    /// async fn count(counts: PartitionedCohortStage<u64, u64>, key: u64) -> Result<u64, CallError> {
    ///     counts.call(key, key).await
    /// }
    /// # let _ = count(counts, 7);
    /// ```
    pub fn partitioned_cohort<S: 'static, I: Send + 'static, O: Send + 'static>(
        self,
        make: impl Fn(usize) -> S + Send + Sync + 'static,
        handler: impl Fn(&mut S, &mut Cohort<I, O>) + Send + Sync + 'static,
    ) -> PartitionedCohortStage<I, O> {
        Stage::new(self.cohort(make, handler).key())
    }

    /// Like [`cohort`](Self::cohort), but with one state for all processors. One processor at a time accesses it, under
    /// a lock taken once per cohort. Use it, for example, for a log to which all processors write.
    ///
    /// ```
    /// use phalanx_core::{Cohort, Graph};
    ///
    /// let mut graph = Graph::new();
    /// let log = graph.stage("log").exclusive_cohort(
    ///     Vec::new(),
    ///     |lines: &mut Vec<String>, cohort: &mut Cohort<String, usize>| {
    ///         for entry in cohort.iter_mut() {
    ///             lines.push(std::mem::take(&mut entry.item));
    ///             entry.reply(lines.len()); // the number of the line
    ///         }
    ///     },
    /// );
    /// # let _ = log;
    /// ```
    pub fn exclusive_cohort<S: Send + 'static, I: 'static, O: 'static>(
        self,
        state: S,
        handler: impl Fn(&mut S, &mut Cohort<I, O>) + Send + Sync + 'static,
    ) -> CohortStage<I, O> {
        let state = Rebuildable::new(self.declaration.name, state, None);
        self.exclusive_cohort_of(state, handler)
    }

    pub(crate) fn exclusive_cohort_of<S: Send + 'static, I: 'static, O: 'static>(
        self,
        state: Rebuildable<S>,
        handler: impl Fn(&mut S, &mut Cohort<I, O>) + Send + Sync + 'static,
    ) -> CohortStage<I, O> {
        let (state, handler) = (Arc::new(ExclusiveState::new(state)), Arc::new(handler));
        let key = self.declare(Box::new(move |_, _| {
            let (gate, handler) = (Rc::new(LocalExclusive::new(state.clone())), handler.clone());
            let state = Exclusive(gate.clone());
            let handle =
                move |cohort: &mut Cohort<I, O>| state.with(|state| handler(state, cohort));
            StageParts { state: Rc::new(()), gate: Some(gate), handler: Some(item_handler(handle)) }
        }));
        Stage::new(key)
    }
}

fn item_handler<I: 'static, O: 'static>(
    handle: impl Fn(&mut Cohort<I, O>) + 'static,
) -> Rc<dyn CohortHandler> {
    Rc::new(ItemHandler::new(handle))
}
