//! A client of [NATS](https://nats.io) on Phalanx's own I/O, without another runtime.
//!
//! | file | idea |
//! |---|---|
//! | `codec` | the frames of the protocol, of both sides, as functions on bytes |
//! | `subject` | valid subjects, and how filters match them |
//! | `address` | the URL of a server |
//! | `options` | the settings and the metrics of a client |
//! | `login` | the exchange at the start of a connection |
//! | `client` | a connection that is opened again when it is lost |
//! | `jetstream` | streams of stored messages |
//! | `model` | a small server for simulations |
//! | `survey` | the properties of servers, for checks before a start |
//!
//! NATS delivers at most once. A client drops messages that it cannot send: without a connection, or when its bounded
//! memory of unsent messages is full. It counts them, and `publish` returns an error.
//!
//! The protocol's authentication by user and password or by token is supported; JWT and keys are not.

#![forbid(unsafe_code)]

#[cfg(feature = "client")]
mod address;
#[cfg(feature = "client")]
mod client;
mod codec;
#[cfg(feature = "client")]
mod jetstream;
#[cfg(feature = "client")]
mod login;
#[cfg(feature = "client")]
mod model;
#[cfg(feature = "client")]
mod options;
mod subject;
#[cfg(feature = "client")]
mod survey;

#[cfg(feature = "client")]
pub use address::ServerAddress;
#[cfg(feature = "client")]
pub use client::{Client, Message, Rejected};
pub use codec::{Bounds, DecodeError, Frame};
#[cfg(feature = "client")]
pub use jetstream::{
    Account, Expected, JetStream, JetStreamError, Limits, Range, Stored, StreamConfig, StreamState,
};
#[cfg(feature = "client")]
pub use model::{ModelServer, Passage};
#[cfg(feature = "client")]
pub use options::{Access, Credentials, Metrics, OnState, Options};
pub use subject::{is_filter, is_subject, matches};
#[cfg(feature = "client")]
pub use survey::{JetStreamUse, Question, ServerInfo, survey};
