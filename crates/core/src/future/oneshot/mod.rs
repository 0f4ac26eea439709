//! Channels for one value.
//!
//! [`local`](local()) connects two ends on one processor and needs no atomic operation. [`shared`](shared()) connects
//! any two threads.

mod local;
mod shared;

pub use local::{LocalReceiver, LocalSender, local};
pub use shared::{Receiver, Sender, shared};
