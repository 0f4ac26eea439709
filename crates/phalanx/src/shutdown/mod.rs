//! Graceful shutdown.
//!
//! A program shuts down in two phases. It *drains* after the first signal, [`drain`] or
//! [`Control::drain`](crate::runtime::Control::drain): listeners stop, and operations finish. It *ends* after the time
//! limit of [`Runtime::shutdown_timeout`](crate::Runtime::shutdown_timeout) or a second signal: the remaining
//! operations are cancelled.
//!
//! ```
//! use phalanx::shutdown::{drain, draining, is_draining};
//! use phalanx::{Graph, Runtime};
//!
//! let mut graph = Graph::new();
//! let stage = graph.shared("stage", ());
//! Runtime::new().processors(1).run(graph, move |_| {
//!     stage.dispatch(|_| async {
//!         draining().await; // resolves when the program begins to drain
//!         assert!(is_draining());
//!     })?;
//!     stage.dispatch(|_| async { drain() })?;
//!     Ok(())
//! })?;
//! # Ok::<(), phalanx::runtime::RunError>(())
//! ```

mod draining;

#[doc(inline)]
pub use phalanx_core::drain;

pub use self::draining::{Draining, draining, is_draining};
pub use crate::io::Drained;
