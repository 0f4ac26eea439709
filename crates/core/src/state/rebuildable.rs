//! Rebuildable state: replaced by a new one after a panic may have left it inconsistent.
//!
//! A panic that unwinds out of `with` has stopped an operation in the middle of a change. Most states
//! tolerate that, just as they tolerate an operation that is cancelled between two changes. A stage
//! whose state does not tolerate it opts in here: the state is dropped and rebuilt by the stage's own
//! constructor before the next operation accesses it.

use std::cell::{Cell, RefCell};

use crate::open_scopes::OpenScope;
use crate::panic::catch_panic;

/// The constructor of a stage's state, on the processor that owns the state.
pub(crate) type Remake<S> = Box<dyn Fn() -> S + Send + Sync>;

/// A state and, if it is rebuilt after panics, its constructor.
pub(crate) struct Rebuildable<S> {
    stage: &'static str,
    torn: Cell<bool>,
    /// Empty only during a rebuild.
    state: RefCell<Option<S>>,
    remake: Option<Remake<S>>,
}

impl<S> Rebuildable<S> {
    pub(crate) fn new(stage: &'static str, state: S, remake: Option<Remake<S>>) -> Self {
        Self { stage, torn: Cell::new(false), state: RefCell::new(Some(state)), remake }
    }

    /// Runs `f` with the state.
    ///
    /// # Panics
    /// If called from within `f`.
    #[inline]
    #[track_caller]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut S) -> R) -> R {
        if self.torn.get() {
            self.rebuild();
        }
        let Ok(mut state) = self.state.try_borrow_mut() else { self.reached_twice() };
        let state = state.as_mut().expect("a state that is being made is not reached");
        let _scope = OpenScope::state();
        if self.remake.is_none() {
            return f(state);
        }
        tearing(&self.torn, || f(state))
    }

    #[cold]
    #[track_caller]
    fn reached_twice(&self) -> ! {
        let stage = self.stage;
        panic!(
            "the state of stage \"{stage}\" is reached while a `with` on it runs: `with` was \
             called inside of the closure of another `with`; let that return first"
        );
    }

    #[cold]
    fn rebuild(&self) {
        let Some(remake) = &self.remake else { return };
        // Both outside the borrow: they are foreign code.
        let torn = self.state.borrow_mut().take();
        catch_panic(|| drop(torn));
        let state = remake();
        *self.state.borrow_mut() = Some(state);
        self.torn.set(false);
    }
}

/// Runs `f` and records whether it unwinds.
#[inline]
fn tearing<R>(torn: &Cell<bool>, f: impl FnOnce() -> R) -> R {
    struct Tear<'a>(&'a Cell<bool>);
    impl Drop for Tear<'_> {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    let tear = Tear(torn);
    let result = f();
    std::mem::forget(tear);
    result
}
