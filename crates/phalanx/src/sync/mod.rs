//! Channels between operations of one processor, and between processors and threads.
//!
//! [`oneshot::local`] connects two operations of one processor without atomic operations. [`oneshot::shared`] carries a
//! value from any thread to an operation. [`Notify`] wakes an operation of the same processor repeatedly. A [`mailbox`]
//! is a bounded queue of values from any threads to one operation. Other threads start operations through a
//! [`Foreign`](crate::foreign::Foreign) handle.
//!
//! ```
//! use phalanx::sync::oneshot;
//! use phalanx::{Graph, Runtime};
//!
//! let mut graph = Graph::new();
//! let stage = graph.shared("stage", ());
//! Runtime::new().processors(1).run(graph, move |start| {
//!     let control = start.control();
//!     let (sender, answer) = oneshot::shared();
//!     std::thread::spawn(move || sender.send(42));
//!     stage.dispatch(move |_| async move {
//!         assert_eq!(answer.await, Some(42));
//!         control.drain();
//!     })?;
//!     Ok(())
//! })?;
//! # Ok::<(), phalanx::runtime::RunError>(())
//! ```

pub mod mailbox;

#[doc(inline)]
pub use phalanx_core::{Notified, Notify, oneshot};
