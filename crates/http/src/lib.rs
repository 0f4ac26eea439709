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
//! 2. [`BodyParser`] reads the request's body, if any.
//! 3. [`path::resolve`] converts the target to a relative path that cannot leave the root.
//! 4. [`Accepted`] selects the content coding; [`evaluate`] decides between a full response, 304 and 412;
//!    [`range::resolve`] between all, one range and several ([`Multipart`]).
//! 5. A [`ResponseBuffer`] gathers responses: its [`Head`] is written around an [`Entity`]'s prepared fields,
//!    as lines for HTTP/1.1 or as a field block for HTTP/2; [`Head::page`] ends one with a small page that names its status.
//!
//! A request over HTTP/2 skips the first two steps: [`Request::from_fields`] builds it from decoded fields.
//!
//! The parser is strict: it rejects every message on whose end two recipients could disagree. Request
//! smuggling depends on such messages, and correct clients do not send them.

#![forbid(unsafe_code)]

pub mod client;
pub mod mime;
pub mod path;

mod access;
mod limits;
mod negotiate;
mod reject;
mod request;
mod response;
mod status;
mod syntax;
mod version;

pub use access::{Access, LogFormat, LogTemplate, LogTime};
pub use limits::{Limits, MAX_FIELDS};
pub use mime::{ContentType, content_type, is_compressible, is_text};
pub use negotiate::accept::{accepts, names};
pub use negotiate::conditional::{Outcome, Validators, evaluate};
pub use negotiate::encoding::{Accepted, Coding};
pub use negotiate::range::{self, MAX_RANGES, Parts, Ranged};
pub use reject::Reject;
pub use request::body::BodyParser;
pub use request::framing::Body;
pub use request::head::Request;
pub use request::line::Method;
pub use request::scan::{Parse, Scan, parse};
pub use response::block::{FieldBlock, Fields};
pub use response::buffer::ResponseBuffer;
pub use response::date_line::DateLine;
pub use response::entity::Entity;
pub use response::head::Head;
pub use response::multipart::Multipart;
pub use response::page::{ALLOW, error_fields};
pub use response::reply::{CONTINUE, Reply};
pub use status::Status;
pub use syntax::bytes::elements;
pub use syntax::date::{format_date, parse_date};
pub use version::Version;
