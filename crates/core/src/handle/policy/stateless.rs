//! Invocation of operations that do not access the state of their stage.
//!
//! The crate `phalanx-fibre` spawns fibres on the stage of the running fibre. It does not know the policy of that
//! stage; a new fibre that uses the state captures it.

use std::future::Future;

use crate::future::call::Call;
use crate::handle::stage::Stage;
use crate::metrics::type_name::display_name;
use crate::processor;
use crate::processor::processor::Processor;
use crate::state::exclusive::{Exclusive, Shared};
use crate::state::partition::Partition;

/// The policy of a handle whose operations do not access the state.
#[doc(hidden)]
pub enum Stateless {}

/// Policies whose operations wait in the local queue of their processor.
#[doc(hidden)]
pub trait LocalQueuePolicy: sealed::Sealed {}

mod sealed {
    pub trait Sealed {}
}

impl<S> sealed::Sealed for Shared<S> {}
impl<S> sealed::Sealed for Exclusive<S> {}
impl<S> sealed::Sealed for Partition<S> {}
impl<S> LocalQueuePolicy for Shared<S> {}
impl<S> LocalQueuePolicy for Exclusive<S> {}
impl<S> LocalQueuePolicy for Partition<S> {}

impl<P: LocalQueuePolicy> Stage<P> {
    /// A handle of the same stage whose operations do not access the state.
    #[doc(hidden)]
    pub fn stateless(&self) -> Stage<Stateless> {
        Stage::new(self.key())
    }
}

impl Stage<Stateless> {
    /// Like [`SharedStage::call`](crate::SharedStage::call), but without the state.
    #[doc(hidden)]
    #[track_caller]
    pub fn call<F, Fut, T>(&self, operation: F) -> Call<T>
    where
        F: FnOnce() -> Fut + 'static,
        Fut: Future<Output = T> + 'static,
        T: 'static,
    {
        let call_site = self.key().call_site();
        let invocation = move |_: &Processor, _: u8| operation();
        processor::current(move |p| Call::new(p, p.call(call_site, invocation)))
    }

    /// The stage's name.
    #[doc(hidden)]
    pub fn name(&self) -> &'static str {
        processor::current(|p| p.stage_name(p.check(self.key())))
    }

    /// Records the number of bytes that a fibre has used of its stack, under the type name of its body. Does nothing
    /// outside a processor, because destructors call it.
    #[doc(hidden)]
    pub fn note_stack(&self, body: &'static str, bytes: usize) {
        processor::try_current(|p| {
            let stage = p.check(self.key()).into();
            p.observe.counters.types.note_stack(stage, display_name(body), bytes);
        });
    }
}
