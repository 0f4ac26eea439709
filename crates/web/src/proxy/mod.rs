//! The reverse proxy: forwards requests for some paths to other servers, and their responses to the clients.
//!
//! A [`Job`] is everything that a server gets of a request's head. It is composed from the parsed request, so no byte
//! sequence of a client reaches a server unchecked, and proxy and server cannot disagree on where a request ends. The
//! [`Exchange`] is an operation of the stage `upstream`: it obtains a connection, sends head and body while it receives
//! the response, and passes that to the client's [`ResponseWriter`](crate::respond::writer::ResponseWriter) piece by
//! piece. Each direction holds at most one piece of a body, so a slow recipient slows the sender down.
//!
//! | file | idea |
//! |---|---|
//! | `job.rs` | which requests are passed on, and their heads |
//! | `fields.rs` | fields that concern one connection only, or that a client must not choose |
//! | `protocols.rs` | protocols to which a client proposes to switch from HTTP/1.1 |
//! | `prepare.rs` | admission and access, as for other requests |
//! | `client.rs` | whether the client still waits |
//! | `body.rs` | the body of a request, as it arrives from the client |
//! | `exchange.rs` | one request at a server: connect, repeat, fail |
//! | `attempt.rs` | one attempt: request and response at the same time |
//! | `upload.rs` | the body of a request, sent while the response is received |
//! | `multiplexed/` | attempts over HTTP/2 |
//! | `answer.rs` | the head of a response, received and relayed |
//! | `location.rs` | redirects to a server's own URL |
//! | `relay.rs` | the body of a response over HTTP/1.1 |
//! | `tunnel.rs` | bytes in both directions after a change of protocol |
//!
//! # Failures
//!
//! Before the head of the response, a failure is an error response: 502, 503 or 504. Later the response cannot be
//! changed, so the client's connection closes, or its stream is reset. If the client disconnects, the request's
//! connection to the server is closed as well, except for tunnels. A server's unused connection may close at any time;
//! a request without a body that may be repeated (RFC 9110 §9.2.2) is then sent once more, on a new connection. So is
//! any request of which a server with HTTP/2 says that it has not processed it.

mod answer;
mod attempt;
mod body;
mod client;
mod exchange;
mod fields;
mod job;
mod location;
mod multiplexed;
mod prepare;
mod protocols;
mod relay;
mod tunnel;
mod upload;

pub(crate) use body::{ConnectionBody, RequestBody, StreamBody, StreamClosed, StreamContent};
pub(crate) use exchange::{End, Exchange, Finished, lost_status};
pub(crate) use job::{Job, Origin};
pub(crate) use prepare::{Prepared, prepare};
