//! The matcher as stages of a program: finds the subscriptions that an event satisfies.
//!
//! [`Matching`] is declared on a graph. A [call](Matching::call) queues its event at the pieces of the index
//! that it touches, together with the events of all other operations on the same processor. A piece runs when
//! its queue reaches a threshold, when an event has waited for [`Options::age`], or immediately if the
//! processor would be idle. A busy server therefore reads each piece once for many events, and an idle one
//! answers without delay. Answers arrive in the order of the calls. The index belongs to one writer, which
//! [publishes](Matching::publish) its snapshots while matching continues.
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
//! # Ok::<(), phalanx::runtime::RunError>(())
//! ```

#![forbid(unsafe_code)]

mod everywhere;
mod local;
mod stages;

pub use local::Matched;
pub use stages::{Matching, Options};
