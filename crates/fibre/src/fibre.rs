//! The handle of a running fibre: waiting, sleeping, starting other fibres.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::pin;
use std::time::Duration;

use phalanx_core::Call;

use crate::control_block::{self, here};
use crate::operation::{FibreFuture, Plain};
use crate::scope::{self, Scope};

/// A handle to the running fibre, which its body receives.
///
/// The handle stays in the body. Code deeper in the call stack uses [`wait`] and the types of this crate, which find
/// the running fibre themselves.
pub struct Fibre<'f>(PhantomData<*mut &'f ()>);

impl Fibre<'_> {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }

    /// Suspends the fibre until `future` is ready, and returns its output; see [`wait`].
    ///
    /// ```
    /// use phalanx_core::{CallError, SharedStage};
    /// use phalanx_fibre::LocalFibres;
    ///
    /// async fn add(stage: SharedStage<()>, lookup: SharedStage<u32>) -> Result<u32, CallError> {
    ///     let call = stage.fibre(move |_, fibre| {
    ///         let value = fibre.wait(lookup.call(|value| async move { *value }));
    ///         value.map(|value| value + 1)
    ///     });
    ///     call.await?
    /// }
    /// ```
    ///
    /// # Panics
    /// Like [`wait`].
    #[inline(always)]
    #[track_caller]
    pub fn wait<F: Future>(&self, future: F) -> F::Output {
        wait(future)
    }

    /// Suspends the fibre for `duration`. The resolution is one millisecond, rounded up.
    ///
    /// # Panics
    /// Like [`wait`].
    #[inline(always)]
    #[track_caller]
    pub fn sleep(&self, duration: Duration) {
        wait(phalanx_core::sleep(duration));
    }

    /// Starts another fibre on the stage of this one, with a stack of the same size. It runs after this fibre has
    /// suspended, and in the same session. Dropping the call does not cancel it.
    ///
    /// ```
    /// use phalanx_core::{CallError, SharedStage};
    /// use phalanx_fibre::LocalFibres;
    ///
    /// async fn both(stage: SharedStage<()>) -> Result<u32, CallError> {
    ///     let call = stage.fibre(|_, fibre| {
    ///         let left = fibre.spawn(|_| 1);
    ///         let right = fibre.spawn(|_| 2);
    ///         Ok(fibre.wait(left)? + fibre.wait(right)?)
    ///     });
    ///     call.await?
    /// }
    /// ```
    #[track_caller]
    pub fn spawn<F, T>(&self, body: F) -> Call<T>
    where
        F: FnOnce(&Fibre<'_>) -> T + 'static,
        T: 'static,
    {
        let (stage, size) = here();
        stage.call(move || FibreFuture::<F, _>::new(stage, size, Plain(body)))
    }

    /// Runs `f` with a scope, whose fibres may borrow locals of this one, and waits for all of them.
    ///
    /// Scoped fibres are part of this fibre's operation: they run whenever this fibre waits, and are not counted as
    /// operations. Each wake-up polls all of them, so use [`spawn`](Self::spawn) for more than a few.
    ///
    /// ```
    /// use phalanx_core::{CallError, SharedStage};
    /// use phalanx_fibre::LocalFibres;
    ///
    /// async fn halves(stage: SharedStage<()>, numbers: Vec<u64>) -> Result<u64, CallError> {
    ///     let call = stage.fibre(move |_, fibre| {
    ///         let (left, right) = numbers.split_at(numbers.len() / 2);
    ///         fibre.scope(|scope| {
    ///             let left = scope.spawn(|_| left.iter().sum::<u64>());
    ///             let right = scope.spawn(|_| right.iter().sum::<u64>());
    ///             left.join() + right.join()
    ///         })
    ///     });
    ///     call.await
    /// }
    /// ```
    ///
    /// # Panics
    /// If a scoped fibre that was not joined panics. Also like [`wait`].
    #[track_caller]
    pub fn scope<'env, F, T>(&self, f: F) -> T
    where
        F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
    {
        scope::scope(f)
    }
}

/// Suspends the running fibre until `future` is ready, and returns its output.
///
/// The future is polled on the fibre's stack. If it panics, the panic continues in the fibre. If the fibre's session
/// ends first, the fibre is unwound, and the future is dropped.
///
/// ```
/// use std::time::Duration;
/// use phalanx_core::{CallError, SharedStage, sleep};
/// use phalanx_fibre::{LocalFibres, wait};
///
/// /// Called in a fibre, at any depth.
/// fn pause() {
///     wait(sleep(Duration::from_millis(1)));
/// }
///
/// async fn pause_once(stage: SharedStage<()>) -> Result<(), CallError> {
///     stage.fibre(|_, _| pause()).await
/// }
/// ```
///
/// # Panics
/// If called outside a fibre or in a future for which a fibre waits, inside a closure of `with`, or in a destructor
/// while the fibre unwinds. A panic in such a destructor ends the process.
#[inline(always)]
#[track_caller]
pub fn wait<F: Future>(future: F) -> F::Output {
    control_block::wait(pin!(future))
}
