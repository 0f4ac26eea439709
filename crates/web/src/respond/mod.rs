//! Requests of all protocols, and their responses.
//!
//! A request of any protocol is admitted (`admit.rs`) and answered ([`respond`]). The response is written to a
//! [`ResponseWriter`], which encodes it for the protocol of the connection, sends it, and knows its status and
//! length.
//!
//! | file | idea |
//! |---|---|
//! | `admit.rs` | limits, health check and redirect to TLS, before a request is answered |
//! | `answer.rs` | host, route, access and lookup of one request |
//! | `ask.rs` | a request routed to a host; starts every head with the host's fields |
//! | `password.rs` | access control |
//! | `fallback.rs` | other files for a path that is not a file |
//! | `negotiate.rs` | encoding and ranges of a file |
//! | `fail.rs`, `redirect.rs`, `refusal.rs`, `health.rs` | responses without a file |
//! | `writer.rs` | the response writer |
//! | `content.rs` | content that is sent without being copied |
//! | `pace.rs` | time limits for sending |

pub(crate) mod admit;
mod answer;
mod ask;
mod content;
mod fail;
mod fallback;
mod health;
mod negotiate;
pub(crate) mod pace;
mod password;
mod redirect;
pub(crate) mod refusal;
pub(crate) mod writer;

pub(crate) use answer::{is_permitted, respond};
pub(crate) use fail::fail_for_server;
