//! The thread's current processor.
//!
//! # Safety
//! The current processor is stored as a raw pointer. [`Processor::enter`] sets it for the duration of a
//! borrow of that processor and restores the previous one afterwards, so it is valid whenever it is set.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use crate::open_scopes::OpenScope;
use crate::processor::processor::Processor;

thread_local! {
    static CURRENT: Cell<Option<NonNull<Processor>>> = const { Cell::new(None) };
}

/// Runs `f` with this thread's current processor, if there is one.
#[inline]
pub(crate) fn try_current<R>(f: impl FnOnce(&Processor) -> R) -> Option<R> {
    // SAFETY: the pointer is valid while it is set (top of the file).
    CURRENT.get().map(|processor| f(unsafe { processor.as_ref() }))
}

/// Runs `f` with this thread's current processor.
///
/// # Panics
/// If the thread has no current processor.
#[inline(always)]
#[track_caller]
pub(crate) fn current<R>(f: impl FnOnce(&Processor) -> R) -> R {
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn panic_outside<F>(f: F) -> ! {
        drop(f);
        panic!(
            "this thread runs no program; invoke stages, await timers and create sessions in the \
             operations of a running Runtime, or in its `start`"
        );
    }
    // Inside a `ManuallyDrop`, the captures of `f` need no unwinding code and stay in registers.
    let f = ManuallyDrop::new(f);
    match CURRENT.get() {
        // SAFETY: the pointer is valid while it is set (top of the file).
        Some(processor) => ManuallyDrop::into_inner(f)(unsafe { processor.as_ref() }),
        None => panic_outside(ManuallyDrop::into_inner(f)),
    }
}

/// Runs `f` if the thread's current processor is the one with this identity.
#[inline]
pub(crate) fn on<R>(identity: u32, f: impl FnOnce(&Processor) -> R) -> Option<R> {
    // SAFETY: the pointer is valid while it is set (top of the file).
    let processor = CURRENT.get().map(|processor| unsafe { processor.as_ref() })?;
    (processor.identity == identity).then(|| f(processor))
}

struct Restore(Option<NonNull<Processor>>);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

impl Processor {
    /// Makes this the thread's current processor while `f` runs, so that `f` can invoke operations.
    pub fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        // If this processor is already current, the visit has already begun.
        let inside = on(self.identity, |_| ()).is_some();
        let _visit = if inside { None } else { self.link.mailbox().parking.visit_self() };
        let _scope = OpenScope::no_suspend();
        let _restore = Restore(CURRENT.replace(Some(NonNull::from(self))));
        f()
    }

    /// Leaves this processor while `f` runs: the thread has no current processor.
    pub(crate) fn leave<R>(&self, f: impl FnOnce() -> R) -> R {
        let _restore = Restore(CURRENT.take());
        f()
    }

    /// Runs `f` as a turn. Turns of one processor do not nest.
    pub(crate) fn in_turn<R>(&self, f: impl FnOnce() -> R) -> R {
        let _turn = self.current.begin_turn();
        self.enter(f)
    }
}
