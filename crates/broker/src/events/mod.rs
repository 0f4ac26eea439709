//! The event log: one line on stderr for each client that connects, disconnects, is refused or takes over a session, and
//! for each dropped message.
//!
//! | file | contents |
//! |---|---|
//! | `class.rs` | classes of events, and the format of lines |
//! | `origin.rs` | the client's address and the listener |
//! | `line.rs` | builds a line, as text or JSON |
//! | `rate_window.rs` | the rate limit of one class |
//! | `writer.rs` | the thread that writes lines |
//! | `event_log.rs` | the log, shared by all processors |
//! | `drops.rs` | dropped messages: counters by reason, and their lines |
//! | `log_limit.rs` | the rate limit of repeated lines outside the event log |
//! | `traces.rs` | traces of operators |

mod class;
pub(crate) mod drops;
mod event_log;
mod line;
pub(crate) mod log_limit;
mod origin;
mod rate_window;
pub(crate) mod traces;
mod writer;

pub use class::{EventClass, LogFormat};
pub(crate) use event_log::EventLog;
pub(crate) use line::Line;
pub(crate) use origin::Origin;
