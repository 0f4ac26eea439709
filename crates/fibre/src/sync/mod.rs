//! Locks, conditions and channels for fibres.
//!
//! They suspend the fibre, not its processor, and work between fibres on any processors. Names and poisoning are as in
//! [`std::sync`].

mod channel;
mod condvar;
mod mutex;

pub use self::channel::{Receiver, RecvError, SendError, Sender, channel};
pub use self::condvar::Condvar;
pub use self::mutex::{Mutex, MutexGuard};
