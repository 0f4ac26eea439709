//! Attempts over HTTP/2, where many requests share a connection.
//!
//! | file | idea |
//! |---|---|
//! | `sent.rs` | the body of a request, kept until the server has processed it |
//! | `relay.rs` | the body of a response, and its trailers |
//! | `attempt.rs` | one attempt: request and response at the same time |

mod attempt;
mod relay;
mod sent;

pub(super) use attempt::attempt;
pub(super) use sent::Sent;
