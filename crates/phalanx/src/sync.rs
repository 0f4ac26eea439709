//! Events between operations: on one processor, and between processors and threads.
//!
//! [`event`] connects two operations of one processor without atomic operations. [`remote_event`] carries a value
//! from any thread to an operation:
//!
//! ```
//! use phalanx::sync::remote_event;
//! use phalanx::{Graph, Runtime};
//!
//! let mut graph = Graph::new();
//! let stage = graph.shared("stage", ());
//! Runtime::new().processors(1).run(graph, move |start| {
//!     let control = start.control();
//!     let (trigger, answer) = remote_event();
//!     std::thread::spawn(move || trigger.fire(42));
//!     stage.dispatch(move |_| async move {
//!         assert_eq!(answer.await, Some(42));
//!         control.drain();
//!     })?;
//!     Ok(())
//! })?;
//! # Ok::<(), phalanx::runtime::RunError>(())
//! ```

#[doc(inline)]
pub use phalanx_core::{Event, RemoteEvent, RemoteTrigger, Trigger, event, remote_event};
