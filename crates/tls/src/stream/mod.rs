//! Encrypted streams.
//!
//! | file | contents |
//! |---|---|
//! | `session.rs` | a stream, for operations |
//! | `polled.rs` | the same for poll functions |
//! | `wire.rs` | a plain or encrypted stream |
//! | `records.rs` | boundaries of records |

pub(crate) mod polled;
mod records;
pub(crate) mod session;
pub(crate) mod wire;
