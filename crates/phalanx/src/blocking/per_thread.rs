//! Per-thread states of blocking stages.
//!
//! The states of a thread are stored in a thread-local list, by the number of their [`PerThread`].

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    static STATES: RefCell<Vec<(u64, Box<dyn Any>)>> = const { RefCell::new(Vec::new()) };
}

/// A state of a blocking stage of which each thread has its own instance. Use it for connections of a blocking client,
/// or other values that are neither `Send` nor `Sync`. A thread creates its instance on first use and drops it when it
/// exits. In a simulation, all calls run on one thread and share one instance.
///
/// ```
/// use std::cell::Cell;
/// use std::rc::Rc;
/// use phalanx::Runtime;
/// use phalanx::blocking::{PerThread, blocking};
///
/// // A connection that stays on its thread.
/// struct Connection(Rc<Cell<u32>>);
///
/// let used = Runtime::new().processors(1).block_on(
///     |graph| {
///         let connections = PerThread::new(|| Connection(Rc::default()));
///         blocking(graph, "database").threads(1).state(connections)
///     },
///     |database| async move {
///         let count = || database.call(|connections| {
///             connections.with(|connection| connection.0.replace(connection.0.get() + 1))
///         });
///         (count().await, count().await)
///     },
/// )?;
/// assert_eq!(used, (Ok(0), Ok(1)));
/// # Ok::<(), phalanx::runtime::RunError>(())
/// ```
pub struct PerThread<S> {
    number: u64,
    make: Box<dyn Fn() -> S + Send + Sync>,
}

impl<S: 'static> PerThread<S> {
    /// Creates a per-thread state. `make` creates the instance of a thread.
    pub fn new(make: impl Fn() -> S + Send + Sync + 'static) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { number: NEXT.fetch_add(1, Ordering::Relaxed), make: Box::new(make) }
    }

    /// Runs `use_state` with the state of this thread. If it panics, the state is dropped, and the next call creates
    /// another.
    pub fn with<R>(&self, use_state: impl FnOnce(&mut S) -> R) -> R {
        let own = self.take().and_then(|state| state.downcast::<S>().ok());
        let mut state = own.unwrap_or_else(|| Box::new((self.make)()));
        let result = use_state(&mut state);
        STATES.with_borrow_mut(|states| states.push((self.number, state)));
        result
    }
}

impl<S> PerThread<S> {
    /// Takes this thread's state out of the list.
    fn take(&self) -> Option<Box<dyn Any>> {
        let state = STATES.try_with(|states| {
            let mut states = states.borrow_mut();
            let place = states.iter().position(|(number, _)| *number == self.number)?;
            Some(states.swap_remove(place).1)
        });
        // The list no longer exists when the thread exits.
        state.ok().flatten()
    }
}

impl<S> Drop for PerThread<S> {
    /// Drops the states of this thread. The stage's threads have already exited.
    fn drop(&mut self) {
        // Nested calls of `with` leave several.
        while let Some(state) = self.take() {
            drop(state);
        }
    }
}

impl<S> fmt::Debug for PerThread<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerThread").field("number", &self.number).finish_non_exhaustive()
    }
}
