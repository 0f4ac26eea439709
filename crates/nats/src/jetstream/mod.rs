//! JetStream: streams of stored messages, replicated by NATS, over the requests of core NATS.
//!
//! | file | idea |
//! |---|---|
//! | `request` | one request and its answer |
//! | `stream` | creates, shows, purges and deletes streams |
//! | `append` | stores a message, if the last one is as expected |
//! | `read` | reads stored messages: single ones, or a range in order |
//!
//! There are no consumers: a reader asks for messages by number, which needs no state on the servers.

mod append;
mod read;
mod request;
mod stream;

use std::time::Duration;

use thiserror::Error;

pub use append::Expected;
pub use read::{Range, Stored};
pub use request::JetStream;
pub use stream::{Account, Limits, StreamConfig, StreamState};

use crate::client::Rejected;

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JetStreamError {
    /// The request was not sent.
    #[error("{0}")]
    Rejected(#[from] Rejected),
    /// No server answers requests of this kind, or no stream stores the subject.
    #[error("NATS has no JetStream, or no stream for the subject; start it with `jetstream {{}}`")]
    Unavailable,
    /// No answer arrived in time. Whether the request was executed is unknown.
    #[error("JetStream did not answer within {0:?}; the outcome is unknown")]
    Timeout(Duration),
    /// The last message of the stream or subject is not the [`Expected`] one. Nothing was stored.
    #[error("another message was stored before")]
    Unexpected,
    /// The stream does not exist.
    #[error("the stream does not exist")]
    NoStream,
    /// A message of a range does not exist.
    #[error("message {0} of the stream is missing")]
    Missing(u64),
    /// Another error of the server, with its number.
    #[error("JetStream: {1} (error {0})")]
    Refused(u32, String),
    /// The answer is malformed.
    #[error("JetStream: malformed answer: {0}")]
    Malformed(String),
}
