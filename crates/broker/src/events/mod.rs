//! The event log: one line on stderr for each client that connects, disconnects, is refused or takes a session
//! over, and for each dropped message.
//!
//! | file | contents |
//! |---|---|
//! | `class.rs` | classes of events, and the format of lines |
//! | `origin.rs` | the client's address and the listener |
//! | `line.rs` | builds a line, as text or JSON |
//! | `rate_window.rs` | the rate limit of one class |
//! | `writer.rs` | the thread that writes lines |
//! | `event_log.rs` | the log, shared by all processors |

mod class;
mod event_log;
mod line;
mod origin;
mod rate_window;
mod writer;

pub use class::{EventClass, LogFormat};
pub(crate) use event_log::EventLog;
pub(crate) use line::Line;
pub(crate) use origin::Origin;
