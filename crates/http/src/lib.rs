//! HTTP/1.1 for servers, as pure functions.
//!
//! This crate reads no socket, clock or file: bytes and times are passed in, and responses are appended to a
//! buffer of the caller. The same code therefore serves a stage with a cohort of requests, a blocking thread
//! with one, and a load generator. Ordinary requests cause no allocation if the buffers have capacity.
//!
//! The path of a request:
//!
//! 1. [`Scan::parse`] (or [`parse`], if all input is available) finds the end of the head and returns a
//!    [`Request`], or a [`Reject`], after whose response the connection is closed.
//! 2. [`Discard`] reads the request's body, if any.
//! 3. [`path::resolve`] converts the target to a relative path that cannot leave the root.
//! 4. [`Accepted`] selects the content coding; [`evaluate`] decides between a full response, 304 and 412;
//!    [`range::resolve`] between all, one range and several ([`Multipart`]).
//! 5. A [`ResponseBuffer`] gathers responses: its [`Head`] is written around an [`Entity`]'s prepared fields,
//!    as lines for HTTP/1.1 or as a field block for HTTP/2; [`error_page`] writes a complete small response.
//!
//! A request over HTTP/2 skips the first two steps: [`Request::from_fields`] builds it from decoded fields.
//!
//! The parser is strict: it rejects every message on whose end two recipients could disagree. Request
//! smuggling depends on such messages, and correct clients do not send them.

#![forbid(unsafe_code)]

pub mod client;
pub mod mime;
pub mod path;
pub mod range;

mod accept;
mod access;
mod block;
mod body;
mod bytes;
mod chunk_extension;
mod conditional;
mod date;
mod encode;
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
mod version;

pub use accept::{accepts, names};
pub use access::{Access, LogFormat, LogTime};
pub use block::{FieldBlock, Fields};
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
pub use page::{ALLOW, error_fields, error_page};
pub use range::{MAX_RANGES, Parts, Ranged};
pub use reject::Reject;
pub use request::Request;
pub use response::{CONTINUE, Head, Reply, ResponseBuffer};
pub use scan::{Parse, Scan, parse};
pub use status::Status;
pub use version::Version;
