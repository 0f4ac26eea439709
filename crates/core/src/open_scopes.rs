//! Tracking of scopes in which a fibre of this thread must not suspend.
//!
//! A fibre has its own stack and may suspend in any function that it calls. Four kinds of code must return first,
//! because their callers hold a resource that belongs to one cohort or one turn: the closure of `with`, which borrows a
//! state; the closure of [`Session::scope`](crate::Session::scope), which sets the session of the processor's next
//! invocations; foreign code that the scheduler calls; and the closure of
//! [`Processor::enter`](crate::Processor::enter). The number of such scopes is counted while they run. Before it
//! suspends, a fibre compares the count with the count when it was resumed.

use std::cell::Cell;

/// The count of a scheduler scope. The closure of a `with` counts one.
const SCHEDULER: u32 = 1 << 16;

thread_local! {
    static OPEN: Cell<u32> = const { Cell::new(0) };
}

/// A scope in which a fibre must not suspend. It ends when this is dropped.
pub(crate) struct OpenScope(u32);

impl OpenScope {
    /// Opens the scope of a closure of `with`.
    #[inline(always)]
    pub(crate) fn borrowed_state() -> Self {
        Self::open(1)
    }

    /// Opens the scope of code that the scheduler calls, or of a closure of `Session::scope`.
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

/// A count of the open scopes of this thread in which a fibre must not suspend. Used by the crate `phalanx-fibre`.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenScopes(u32);

impl OpenScopes {
    /// The scopes that are currently open.
    #[inline]
    pub fn now() -> Self {
        Self(OPEN.get())
    }

    /// Whether a closure of `with` has begun since `earlier` and has not returned.
    pub fn holds_state_since(self, earlier: Self) -> bool {
        self.0 % SCHEDULER > earlier.0 % SCHEDULER
    }
}
