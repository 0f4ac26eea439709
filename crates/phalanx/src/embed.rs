//! The scheduler without the runtime, for programs that bring their own event loop.
//!
//! [`Graph::build`](crate::Graph::build) returns a [`ProcessorBuilder`] per processor. Build each one's
//! [`Processor`] on its thread, and run it with a [`World`], which is a clock and the source of I/O completions. The
//! crate `phalanx-core` contains only the scheduler and exports all of these items.
//!
//! ```
//! use phalanx::Graph;
//! use phalanx::embed::World;
//!
//! /// A world without time or I/O.
//! struct Still;
//!
//! impl World for Still {
//!     fn now(&self) -> u64 { 0 }
//!     fn reap(&self) -> bool { false }
//!     fn submit(&self) {}
//!     fn park(&self, _: Option<u64>) { unreachable!("there is always something to do") }
//! }
//!
//! let mut graph = Graph::new();
//! let stage = graph.shared("stage", ());
//! let processor = graph.build(1).remove(0).build(Box::new(|| ()));
//! let control = processor.control();
//! processor.enter(|| stage.dispatch(move |_| async move { control.drain() }))?;
//! processor.run(&Still, 0);
//! # Ok::<(), phalanx::CallError>(())
//! ```

#[doc(inline)]
pub use phalanx_core::{
    Leak, Processor, ProcessorBuilder, ProcessorId, Region, Steps, Turn, Unpark, World,
    prefetch_wakers, wake_catching_panics,
};
