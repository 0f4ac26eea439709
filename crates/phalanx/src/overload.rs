//! Overload control: admission, load shedding and backpressure.
//!
//! An [`Admission`] limits the requests in flight so that their queueing delay stays below a target, and rejects the
//! rest with [`Shed`]. [`WaitForCapacity`] waits until a stage's bounded queue has capacity. See the page
//! `docs/mechanisms/overload.md`.
//!
//! ```
//! use phalanx::overload::Admission;
//! use phalanx::{Graph, Runtime};
//!
//! let mut graph = Graph::new();
//! let stage = graph.shared("stage", ());
//! Runtime::new().processors(1).run(graph, move |start| {
//!     let control = start.control();
//!     let admission = Admission::new(); // one per processor
//!     stage.dispatch(move |_| async move {
//!         match admission.admit() {
//!             Ok(permit) => drop(permit), // serve the request, then return the permit
//!             Err(shed) => println!("rejected: {shed}"),
//!         }
//!         control.drain();
//!     })?;
//!     Ok(())
//! })?;
//! # Ok::<(), phalanx::runtime::RunError>(())
//! ```

#[doc(inline)]
pub use phalanx_core::{Admission, DEFAULT_MAX_QUEUE_DELAY, Permit, Shed, WaitForCapacity};
