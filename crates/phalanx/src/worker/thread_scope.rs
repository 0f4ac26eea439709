//! A scope in which a program runs each processor's thread.

use std::fmt;

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
