//! A budget that is pinned: a handle through which only operations of so many bytes compile.
//!
//! A closure grows unseen, by a variable that comes to live across an `await`. Where a stage's requests
//! are to fit a cache, its handle is used [`within`](SharedStage::within) a number of bytes, and what
//! grows beyond it is told by the compiler.

use std::future::Future;

use crate::error::CallError;
use crate::future::call::Call;
use crate::handle::handles::{PartitionedStage, SharedStage};
use crate::operation::slot::Payload;
use crate::state::exclusive::Shared;
use crate::state::partition::Partition;

/// A stage's handle for operations of at most `BYTES`: see [`SharedStage::within`].
pub struct Within<const BYTES: usize, Stage>(Stage);

impl<const BYTES: usize, Stage: Copy> Copy for Within<BYTES, Stage> {}

impl<const BYTES: usize, Stage: Clone> Clone for Within<BYTES, Stage> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Fails to compile when the closure, which is the largest of these, is larger.
const fn assert_within<const BYTES: usize, F, Fut, T>() {
    assert!(
        size_of::<Payload<F, Fut, T>>() <= BYTES,
        "an operation (its captures, its future or its result) is larger than the budget that its \
         stage's handle was pinned to"
    );
}

impl<S: Send + Sync + 'static> SharedStage<S> {
    /// The same stage for operations whose closure (captures, future and result; at least the 64
    /// bytes of an error) takes at most so many bytes. One that takes more does not compile.
    ///
    /// ```
    /// # let mut graph = phalanx_core::Graph::new();
    /// let parse = graph.shared("parse", ()).within::<256>();
    /// # async fn f(parse: phalanx_core::Within<256, phalanx_core::SharedStage<()>>) {
    /// let line = String::from("GET /");
    /// let words = parse.call(move |_| async move { line.split(' ').count() }).await;
    /// # }
    /// ```
    ///
    /// ```compile_fail
    /// # let mut graph = phalanx_core::Graph::new();
    /// let parse = graph.shared("parse", ()).within::<256>();
    /// let line = [0u8; 300];
    /// let _ = parse.dispatch(move |_| async move { drop(line) });
    /// ```
    pub fn within<const BYTES: usize>(self) -> Within<BYTES, Self> {
        Within(self)
    }
}

impl<S: 'static> PartitionedStage<S> {
    /// As [`SharedStage::within`].
    pub fn within<const BYTES: usize>(self) -> Within<BYTES, Self> {
        Within(self)
    }
}

impl<const BYTES: usize, Stage: Copy> Within<BYTES, Stage> {
    /// The handle without the budget.
    pub fn unpinned(&self) -> Stage {
        self.0
    }
}

impl<const BYTES: usize, S: Send + Sync + 'static> Within<BYTES, SharedStage<S>> {
    /// As [`SharedStage::call`].
    #[inline]
    pub fn call<F, Fut, T>(&self, operation: F) -> Call<T>
    where
        F: FnOnce(Shared<S>) -> Fut + 'static,
        Fut: Future<Output = T> + 'static,
        T: 'static,
    {
        const { assert_within::<BYTES, F, Fut, T>() };
        self.0.call(operation)
    }

    /// As [`SharedStage::dispatch`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn dispatch<F, Fut>(&self, operation: F) -> Result<(), CallError>
    where
        F: FnOnce(Shared<S>) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        const { assert_within::<BYTES, F, Fut, ()>() };
        self.0.dispatch(operation)
    }
}

impl<const BYTES: usize, S: 'static> Within<BYTES, PartitionedStage<S>> {
    /// As [`PartitionedStage::call`].
    #[inline]
    pub fn call<F, Fut, T>(&self, key: u64, operation: F) -> Call<T>
    where
        F: FnOnce(Partition<S>) -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        const { assert_within::<BYTES, F, Fut, T>() };
        self.0.call(key, operation)
    }

    /// As [`PartitionedStage::dispatch`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn dispatch<F, Fut>(&self, key: u64, operation: F) -> Result<(), CallError>
    where
        F: FnOnce(Partition<S>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        const { assert_within::<BYTES, F, Fut, ()>() };
        self.0.dispatch(key, operation)
    }
}
