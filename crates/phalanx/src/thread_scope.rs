//! A value that a program keeps on each processor's thread while the processor runs.

use std::fmt;

use crate::runtime::Runtime;

type Scope = dyn Fn(&mut dyn FnMut()) + Send + Sync;

/// The argument of [`Runtime::thread_scope`](crate::Runtime::thread_scope).
#[derive(Default)]
pub(crate) struct ThreadScope(Option<Box<Scope>>);

impl ThreadScope {
    /// This scope with another one inside.
    pub(crate) fn around(self, inner: impl Fn(&mut dyn FnMut()) + Send + Sync + 'static) -> Self {
        let scope = move |run: &mut dyn FnMut()| self.enter(&mut || inner(run));
        Self(Some(Box::new(scope)))
    }

    /// Calls `run` in the scope.
    pub(crate) fn enter(&self, run: &mut dyn FnMut()) {
        match &self.0 {
            Some(scope) => scope(run),
            None => run(),
        }
    }
}

impl fmt::Debug for ThreadScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ThreadScope").field(&self.0.is_some()).finish()
    }
}

impl Runtime {
    /// Runs each processor inside of `scope`, on the processor's thread. `scope` must call its argument once, and may hold
    /// something meanwhile. Code that needs tokio's reactor, such as reqwest or sqlx, finds the runtime that is entered
    /// here; that runtime's own threads do the I/O and wake operations of any processor. A second scope runs inside of
    /// the first.
    ///
    /// ```
    /// use std::time::Duration;
    /// use phalanx::Runtime;
    ///
    /// let side = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    /// let handle = side.handle().clone();
    /// let runtime = Runtime::new().processors(1).signals(false).thread_scope(move |run| {
    ///     let _entered = handle.enter();
    ///     run();
    /// });
    /// runtime.block_on(|_| (), |()| async {
    ///     tokio::time::sleep(Duration::from_millis(1)).await; // a timer of the side runtime
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn thread_scope(
        mut self,
        scope: impl Fn(&mut dyn FnMut()) + Send + Sync + 'static,
    ) -> Self {
        self.thread_scope = self.thread_scope.around(scope);
        self
    }
}
