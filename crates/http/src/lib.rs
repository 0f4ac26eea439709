//! HTTP/1.1 for servers, as pure functions.
//!
//! Nothing here reads a socket, a clock or a file: bytes and times are handed in, and answers are
//! appended to a buffer that the caller owns. So the same code serves a stage that is given a cohort
//! of requests, a blocking thread with one, and a load generator at the other end. Nothing on the way
//! of an ordinary request allocates, as long as the buffers handed in have room.
//!
//! How a request travels:
//!
//! 1. [`Scan::parse`] (or [`parse`], when everything is there at once) finds the end of the head and
//!    gives a [`Request`], or a [`Reject`] after which the connection is answered and closed.
//! 2. [`Discard`] swallows the request's body, if it has one.
//! 3. [`path::resolve`] turns the target into a relative path which cannot leave the root.
//! 4. [`Accepted`] tells which coding of it to choose; [`evaluate`] decides between an answer, 304 and
//!    412; [`range::resolve`] between all, a part and several ([`Multipart`]).
//! 5. [`Head`] writes the response's head around an [`Entity`]'s prebuilt block, or [`error_page`]
//!    writes a whole small response.
//!
//! The parser is strict: wherever two readers of one message could disagree on where it ends, it is
//! refused. That is what request smuggling lives on, and no honest client needs it.

#![forbid(unsafe_code)]

pub mod client;
pub mod mime;
pub mod path;
pub mod range;

mod accept;
mod access;
mod body;
mod bytes;
mod chunk_extension;
mod conditional;
mod date;
mod encoding;
mod entity;
mod etag;
mod fields;
mod framing;
mod host;
mod limits;
mod line;
mod multipart;
mod page;
mod reject;
mod request;
mod response;
mod scan;
mod status;

pub use accept::{accepts, names};
pub use access::{Access, LogFormat, LogTime};
pub use body::Discard;
pub use conditional::{Outcome, Validators, evaluate};
pub use date::{DateLine, parse_date};
pub use encoding::{Accepted, Coding};
pub use entity::Entity;
pub use framing::Body;
pub use limits::{Limits, MAX_FIELDS};
pub use line::Method;
pub use mime::{ContentType, content_type};
pub use multipart::Multipart;
pub use page::{ALLOW, error_lines, error_page, error_page_with, options, redirect};
pub use range::{MAX_RANGES, Parts, Ranged};
pub use reject::Reject;
pub use request::Request;
pub use response::{CONTINUE, Head, Reply};
pub use scan::{Parse, Scan, parse};
pub use status::Status;
