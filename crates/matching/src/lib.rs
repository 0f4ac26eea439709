//! The matcher as stages of a program: which subscriptions does an event satisfy?
//!
//! [`Matching`] is declared on a graph. An event that is [matched](Matching::call) is queued at the pieces of the
//! index that it touches, together with those of all other operations of its processor; a piece is run when its
//! queue is worth it, when an event has waited for [`Options::age`], or at once when the processor would be
//! idle. So a busy server reads each piece once for many events, and an idle one answers without delay. Answers
//! come in the order of the calls. The index belongs to one writer, who [publishes](Matching::publish) its
//! snapshots; matching goes on meanwhile.
//!
//! ```
//! use phalanx::{Graph, Runtime};
//! use phalanx_matching::{Matching, Options};
//! use phalanx_matcher::{Filter, Index};
//!
//! let mut graph = Graph::new();
//! let main = graph.shared("main", ());
//! // What is matched is a price here; this says how it becomes an event.
//! let matching = Matching::declare(&mut graph, Options::default(), |price: &i64, snapshot| {
//!     snapshot.event(&[("price", (*price).into())])
//! });
//! Runtime::new().processors(1).run(graph, move |start| {
//!     let control = start.control();
//!     main.dispatch(move |_| async move {
//!         let mut index = Index::new(phalanx_matcher::Options::default());
//!         let cheap = index.insert(&Filter::parse("price < 10").unwrap());
//!         matching.publish(&index.snapshot()).await.unwrap();
//!
//!         let calls: Vec<_> = [12, 9].into_iter().map(|price| matching.call(price)).collect();
//!         let found: Vec<_> = phalanx::join(calls).await;
//!         assert!(found[0].as_ref().unwrap().subscriptions.is_empty());
//!         assert_eq!(found[1].as_ref().unwrap().subscriptions, [cheap]);
//!         control.drain();
//!     })?;
//!     Ok(())
//! })?;
//! # Ok::<(), phalanx::RunError>(())
//! ```

#![forbid(unsafe_code)]

mod everywhere;
mod local;
mod stages;

pub use local::Matched;
pub use stages::{Matching, Options};
