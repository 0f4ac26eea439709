//! The scopes in which a fibre of this thread must not suspend.
//!
//! A fibre has a stack of its own and may suspend between any two calls. Four kinds of code must return first,
//! because their callers hold something that belongs to one cohort or to one turn: the closure of `with`, which
//! borrows a state; the closure of [`Session::scope`](crate::Session::scope), which sets the session of the processor's
//! next invocations; foreign code that the scheduler calls; and the closure of
//! [`Processor::enter`](crate::Processor::enter). Each is counted while it runs. A fibre compares the count with the
//! one at which it was resumed.

use std::cell::Cell;

/// Closures of `with` count one; scopes of the scheduler count this.
const SCHEDULER: u32 = 1 << 16;

thread_local! {
    static OPEN: Cell<u32> = const { Cell::new(0) };
}

/// A scope in which a fibre must not suspend, until it is dropped.
pub(crate) struct OpenScope(u32);

impl OpenScope {
    /// The closure of a `with`.
    #[inline(always)]
    pub(crate) fn borrowed_state() -> Self {
        Self::open(1)
    }

    /// Code that the scheduler calls, or the closure of a `Session::scope`.
    #[inline(always)]
    pub(crate) fn no_suspend() -> Self {
        Self::open(SCHEDULER)
    }

    #[inline(always)]
    fn open(count: u32) -> Self {
        OPEN.set(OPEN.get().wrapping_add(count));
        Self(count)
    }
}

impl Drop for OpenScope {
    #[inline(always)]
    fn drop(&mut self) {
        OPEN.set(OPEN.get().wrapping_sub(self.0));
    }
}

/// The scopes of this thread in which a fibre must not suspend. For the crate `phalanx-fibre`.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenScopes(u32);

impl OpenScopes {
    /// The scopes that are open now.
    #[inline]
    pub fn now() -> Self {
        Self(OPEN.get())
    }

    /// Whether a closure of `with` has begun since `earlier` and has not returned.
    pub fn holds_state_since(self, earlier: Self) -> bool {
        self.0 % SCHEDULER > earlier.0 % SCHEDULER
    }
}
