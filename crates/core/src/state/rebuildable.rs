//! Rebuildable state, which is replaced after a panic may have left it inconsistent.
//!
//! A panic that unwinds out of `with` has stopped an operation in the middle of a change. Most states tolerate that,
//! just as they tolerate an operation that is cancelled between two changes. A stage whose state does not can enable
//! rebuilding: the state is dropped, and the stage's constructor creates a new one before the next operation accesses
//! it.

use std::cell::{Cell, RefCell};

use crate::open_scopes::OpenScope;
use crate::panic::catch_panic;

/// The constructor of a stage's state, on the processor that owns the state.
pub(crate) type Remake<S> = Box<dyn Fn() -> S + Send + Sync>;

/// A state and, if it is rebuilt after panics, its constructor.
pub(crate) struct Rebuildable<S> {
    stage: &'static str,
    inconsistent: Cell<bool>,
    /// Empty only during a rebuild.
    state: RefCell<Option<S>>,
    remake: Option<Remake<S>>,
}

impl<S> Rebuildable<S> {
    pub(crate) fn new(stage: &'static str, state: S, remake: Option<Remake<S>>) -> Self {
        Self { stage, inconsistent: Cell::new(false), state: RefCell::new(Some(state)), remake }
    }

    /// Runs `f` with the state.
    ///
    /// # Panics
    /// If called from within `f`.
    #[inline]
    #[track_caller]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut S) -> R) -> R {
        if self.inconsistent.get() {
            self.rebuild();
        }
        let Ok(mut state) = self.state.try_borrow_mut() else { self.panic_reentrant() };
        let state = state.as_mut().expect("the constructor of a state must not access that state");
        let _scope = OpenScope::borrowed_state();
        if self.remake.is_none() {
            return f(state);
        }
        mark_on_unwind(&self.inconsistent, || f(state))
    }

    #[cold]
    #[track_caller]
    fn panic_reentrant(&self) -> ! {
        let stage = self.stage;
        panic!(
            "the state of stage \"{stage}\" is accessed while a `with` on it is running: `with` was called in \
             the closure of another `with`; return from that closure first"
        );
    }

    #[cold]
    fn rebuild(&self) {
        let Some(remake) = &self.remake else { return };
        // If the destructor or the constructor accesses the state, it finds none and does not rebuild it again.
        self.inconsistent.set(false);
        // Both run outside the borrow, because they are foreign code.
        let inconsistent = self.state.borrow_mut().take();
        catch_panic(|| drop(inconsistent));
        let state = mark_on_unwind(&self.inconsistent, remake);
        *self.state.borrow_mut() = Some(state);
    }
}

/// Runs `f` and records whether it unwinds.
#[inline]
fn mark_on_unwind<R>(inconsistent: &Cell<bool>, f: impl FnOnce() -> R) -> R {
    struct MarkOnUnwind<'a>(&'a Cell<bool>);
    impl Drop for MarkOnUnwind<'_> {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    let mark = MarkOnUnwind(inconsistent);
    let result = f();
    std::mem::forget(mark);
    result
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::OnceCell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// A constructor that reaches the state which it makes.
    #[test]
    fn a_state_is_not_rebuilt_during_its_rebuild() {
        thread_local! {
            static STATE: OnceCell<Rebuildable<u32>> = const { OnceCell::new() };
            static BUILDS: Cell<u32> = const { Cell::new(0) };
        }
        let access = |f: fn(&mut u32) -> u32| STATE.with(|state| state.get().unwrap().with(f));
        let remake = move || {
            BUILDS.set(BUILDS.get() + 1);
            // The first time, the panic of the inner access leaves the constructor.
            if BUILDS.get() == 1 { access(|n| *n) } else { BUILDS.get() }
        };
        let state = Rebuildable::new("stage", 0, Some(Box::new(remake)));
        STATE.with(|cell| cell.set(state).ok().unwrap());
        let panics = |f: fn(&mut u32) -> u32| catch_unwind(AssertUnwindSafe(|| access(f))).is_err();
        assert!(panics(|_| panic!("torn")) && panics(|n| *n));
        assert_eq!((access(|n| *n), BUILDS.get()), (2, 2), "made once more");
    }
}
