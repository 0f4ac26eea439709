//! Operations: calls, replies, joins and sessions.
//!
//! [`Stage`](crate::Stage) handles start operations. `call` returns a [`Call`], a future for the result; `dispatch` is
//! for operations whose result is not needed. [`join`] waits for several calls; [`select`] waits for the first of two
//! futures, and [`select_many`] for the first of many. A [`Session`] is a group of operations that are cancelled
//! together.
//!
//! ```
//! use phalanx::task::Either;
//! use phalanx::{Graph, Runtime, select, sleep};
//! use std::time::Duration;
//!
//! let mut graph = Graph::new();
//! let slow = graph.shared("slow", ());
//! Runtime::new().processors(1).run(graph, move |start| {
//!     let control = start.control();
//!     slow.dispatch(move |_| async move {
//!         let mut call = slow.call(|_| sleep(Duration::from_secs(60)));
//!         let first = select(&mut call, sleep(Duration::from_millis(1))).await;
//!         assert_eq!(first, Either::Right(()));
//!         call.cancel(); // dropping a call does not cancel its operation
//!         control.drain();
//!     })?;
//!     Ok(())
//! })?;
//! # Ok::<(), phalanx::runtime::RunError>(())
//! ```

mod select;

#[doc(inline)]
pub use phalanx_core::{
    Call, CallError, Children, Join, LARGE_OPERATION, MAX_OPERATIONS, Reply, SelectAll, Session,
    SessionEnd, SessionGuard, join, select_all, yield_now,
};

pub use self::select::{Either, select, select_many};
