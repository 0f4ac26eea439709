//! Locks, conditions and channels for fibres.
//!
//! They suspend the fibre, not its processor, and connect fibres of any processors. The names and the poisoning are those
//! of [`std::sync`].

mod channel;
mod condvar;
mod mutex;

pub use self::channel::{Receiver, RecvError, SendError, Sender, channel};
pub use self::condvar::Condvar;
pub use self::mutex::{Mutex, MutexGuard};
