//! A state that is made anew when a panic may have torn it.
//!
//! A panic that unwinds out of `with` has stopped some operation in the middle of a change. Most
//! states can live with that, as they can with an operation that was ended between two changes. A
//! stage whose state cannot says so, and the state is dropped and made by the stage's own
//! constructor before the next operation sees it.

use std::cell::{Cell, RefCell};

use crate::panic::catch_panic;

/// A stage's constructor, on the processor that has the state.
pub(crate) type Remake<S> = Box<dyn Fn() -> S + Send + Sync>;

/// A state, and how it is made anew, if it is.
pub(crate) struct Rebuildable<S> {
    stage: &'static str,
    torn: Cell<bool>,
    /// Empty only while it is made anew.
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
        // Both outside of the borrow: they are foreign.
        let torn = self.state.borrow_mut().take();
        catch_panic(|| drop(torn));
        let state = remake();
        *self.state.borrow_mut() = Some(state);
        self.torn.set(false);
    }
}

/// Runs `f`, and notes if it unwinds.
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
