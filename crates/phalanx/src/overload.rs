//! Overload control: admission, load shedding and backpressure.
//!
//! An [`Ingress`] limits the requests that begin on a processor. [`Ingress::Admit`] keeps their queueing delay near a
//! target: [`Ingress::admit`] rejects further requests with [`Shed`]. [`WaitForCapacity`] waits until a stage's bounded
//! queue has capacity. See `docs/mechanisms/overload.md`.
//!
//! ```
//! use phalanx::overload::Ingress;
//! use phalanx::{Graph, Runtime};
//!
//! let mut graph = Graph::new();
//! graph.ingress(Ingress::Admit { max_queue_delay: Ingress::DEFAULT_MAX_QUEUE_DELAY });
//! let stage = graph.shared("stage", ());
//! Runtime::new().processors(1).run(graph, move |start| {
//!     let control = start.control();
//!     stage.dispatch(move |_| async move {
//!         match Ingress::admit() {
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
pub use phalanx_core::{Ingress, Permit, Shed, WaitForCapacity};
