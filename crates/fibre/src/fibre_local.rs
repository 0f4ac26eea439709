//! Values that belong to one fibre.

use std::any::Any;
use std::rc::Rc;

use crate::control_block;

/// A key of a fibre-local value: each fibre has its own value, as each thread has its own value of a thread-local key.
///
/// The value is created when the fibre first uses it, and dropped when the fibre ends, after the locals of its body.
/// Keys must be `static` items, because a value is found by the address of its key.
///
/// ```
/// use std::cell::Cell;
/// use phalanx_core::{CallError, SharedStage};
/// use phalanx_fibre::{FibreLocal, LocalFibres};
///
/// static DEPTH: FibreLocal<Cell<u32>> = FibreLocal::new(|| Cell::new(0));
///
/// /// Called in a fibre.
/// fn enter() -> u32 {
///     DEPTH.with(|depth| {
///         depth.set(depth.get() + 1);
///         depth.get()
///     })
/// }
///
/// async fn enter_twice(stage: SharedStage<()>) -> Result<u32, CallError> {
///     stage.fibre(|_, _| enter() + enter()).await
/// }
/// ```
pub struct FibreLocal<T: 'static> {
    make: fn() -> T,
}

impl<T: 'static> FibreLocal<T> {
    /// Creates a key whose values are created by `make`.
    pub const fn new(make: fn() -> T) -> Self {
        Self { make }
    }

    /// Runs `f` with the value of the running fibre.
    ///
    /// # Panics
    /// If called outside a fibre, or in a future for which a fibre waits.
    #[track_caller]
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        let key = std::ptr::from_ref(self).addr();
        let find = |key| {
            control_block::try_running(|block| {
                let locals = block.locals.borrow();
                let found = locals.iter().find(|(each, _)| *each == key);
                found.map(|(_, value)| value.clone())
            })
            .expect("a fibre-local value belongs to the body of a fibre")
        };
        let value: Rc<dyn Any> = find(key).unwrap_or_else(|| {
            // Called without a borrow, because `make` may use other keys, or wait.
            let value: Rc<dyn Any> = Rc::new((self.make)());
            control_block::try_running(|block| {
                block.locals.borrow_mut().push((key, value.clone()))
            });
            value
        });
        f(value.downcast_ref().expect("keys are static, so their addresses differ"))
    }
}
