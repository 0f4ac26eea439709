//! Policies defined by the program ("other policies are possible", 2002 §3.4).
//!
//! A policy defines four things: the part of a stage's state on each processor, the processor that runs an invocation,
//! whether a cohort may run now, and how an operation accesses the state. A policy needs no unsafe code. A processor's
//! part never leaves its thread, so it may consist of plain cells; shared data is in the policy itself, which is
//! `Sync`. No server of this repository defines one.
//!
//! # Safety
//! A handle has the policy of its stage ([`crate::handle::stage`]), so a processor's part of the stage has the type of
//! that policy.

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

use crate::error::CallError;
use crate::future::call::Call;
use crate::gate::Gate;
use crate::handle::stage::Stage;
use crate::handle::stage_options::StageOptions;
use crate::processor;
use crate::processor::processor::Processor;
use crate::stage::declaration::StageParts;

/// How the operations of a stage access its state. Declare such a stage with
/// [`StageOptions::policy`](crate::StageOptions::policy) and invoke its operations through the returned [`Stage`].
///
/// For example, a state with a copy on each processor, so that reading and counting need no lock:
///
/// ```
/// use std::cell::RefCell;
/// use std::rc::Rc;
/// use phalanx_core::{Graph, Policy};
///
/// /// A copy for each processor.
/// struct Replicated<S>(S);
///
/// impl<S: Clone + Send + Sync + 'static> Policy for Replicated<S> {
///     /// Which copy: here, or on another processor.
///     type Key = Option<usize>;
///     type Local = RefCell<S>;
///     type Access = Rc<RefCell<S>>;
///
///     fn local(&self, _processor: usize, _processors: usize) -> RefCell<S> {
///         RefCell::new(self.0.clone())
///     }
///     fn place(&self, key: &Option<usize>, here: usize, _processors: usize) -> usize {
///         key.unwrap_or(here)
///     }
///     fn access(local: &Rc<RefCell<S>>, _key: Option<usize>) -> Rc<RefCell<S>> {
///         local.clone()
///     }
/// }
///
/// let mut graph = Graph::new();
/// let hits = graph.stage("hits").policy(Replicated(0u64));
/// let main = graph.shared("main", ());
/// # let total = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
/// # let out = total.clone();
/// # let start = move || {
/// main.dispatch(move |_| async move {
///     hits.call(None, |copy| async move { *copy.borrow_mut() += 1 }).await.unwrap();
///     let mut sum = 0;
///     for at in 0..2 {
///         sum += hits.call(Some(at), |copy| async move { *copy.borrow() }).await.unwrap();
///     }
/// #   out.store(sum, std::sync::atomic::Ordering::Relaxed);
/// }).unwrap();
/// # };
/// # let processors: Vec<_> =
/// #     graph.build(2).into_iter().map(|builder| builder.build(Box::new(|| ()))).collect();
/// # processors[0].enter(start);
/// # for _ in 0..20 { processors.iter().for_each(|p| { p.turn(&phalanx_core::IdleWorld); }) }
/// # assert_eq!(total.load(std::sync::atomic::Ordering::Relaxed), 1);
/// ```
pub trait Policy: Send + Sync + Sized + 'static {
    /// The argument of an invocation that selects a part of the state, such as a key. It travels with the
    /// invocation.
    type Key: Send + 'static;
    /// A processor's part of the state. It is created on the processor's thread and stays there.
    type Local: 'static;
    /// The access of an operation to the state.
    type Access: 'static;

    /// Creates the part of the processor with index `processor` of `processors`, at its start.
    fn local(&self, processor: usize, processors: usize) -> Self::Local;

    /// The number of the processor that runs an invocation on `key` made on processor `here`. The default is `here`.
    /// The invocation panics if the number is not below `processors`.
    fn place(&self, key: &Self::Key, here: usize, processors: usize) -> usize {
        let _ = (key, processors);
        here
    }

    /// The gate that a processor must pass to run a cohort. None by default.
    fn gate(local: &Rc<Self::Local>) -> Option<Rc<dyn Gate>> {
        let _ = local;
        None
    }

    /// The access for an operation on `key` that is about to start.
    fn access(local: &Rc<Self::Local>, key: Self::Key) -> Self::Access;
}

/// One processor's part of the state, with the policy.
pub(crate) struct Part<P: Policy> {
    policy: Arc<P>,
    local: Rc<P::Local>,
}

impl<P: Policy> Part<P> {
    pub(crate) fn new(policy: Arc<P>, processor: usize, processors: usize) -> Self {
        let local = Rc::new(policy.local(processor, processors));
        Self { policy, local }
    }

    pub(crate) fn gate(&self) -> Option<Rc<dyn Gate>> {
        P::gate(&self.local)
    }

    pub(crate) fn local(&self) -> &P::Local {
        &self.local
    }

    pub(crate) fn access(&self, key: P::Key) -> P::Access {
        P::access(&self.local, key)
    }

    fn place(&self, key: &P::Key, processor: &Processor) -> usize {
        self.policy.place(key, processor.index(), processor.processors())
    }
}

impl StageOptions<'_> {
    /// A stage with a [`Policy`] defined by the program.
    pub fn policy<P: Policy>(self, policy: P) -> Stage<P> {
        let policy = Arc::new(policy);
        let key = self.declare(Box::new(move |processor, processors| {
            let part = Part::new(policy.clone(), processor, processors);
            StageParts { gate: part.gate(), state: Rc::new(part), handler: None }
        }));
        Stage::new(key)
    }
}

impl<P: Policy> Stage<P> {
    /// Invokes an operation on the processor that the policy chooses for `key`. The invocation and the result may cross
    /// to another processor, so both are `Send`. The future stays on the processor where it starts.
    #[track_caller]
    pub fn call<F, Fut, T>(&self, key: P::Key, operation: F) -> Call<T>
    where
        F: FnOnce(P::Access) -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        let call_site = self.key().call_site();
        processor::current(|p| {
            let target = p.part(self).place(&key, p);
            let stage = *self;
            let invocation = move |p: &Processor, _| operation(p.part(&stage).access(key));
            Call::new(p, p.call_on(call_site, target, invocation))
        })
    }

    /// Invokes an operation whose result nobody awaits.
    ///
    /// # Errors
    /// The errors of [`SharedStage::dispatch`](crate::SharedStage::dispatch).
    #[track_caller]
    pub fn dispatch<F, Fut>(&self, key: P::Key, operation: F) -> Result<(), CallError>
    where
        F: FnOnce(P::Access) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        self.call(key, operation).detach()
    }
}

impl Processor {
    /// This processor's part of a stage with a policy defined by the program.
    #[inline]
    #[track_caller]
    pub(crate) fn part<P: Policy>(&self, stage: &Stage<P>) -> &Part<P> {
        let stage = self.check(stage.key());
        // SAFETY: the key was checked and belongs to this handle (top of the file).
        unsafe { self.state(stage) }
    }
}
