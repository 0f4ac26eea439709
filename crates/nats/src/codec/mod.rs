//! The frames of the protocol, in both directions: a line, in some frames followed by a payload.
//!
//! Available crates decode only the server's frames, so they cannot model a server, and they allocate for each message.

mod decode;
mod encode;

use thiserror::Error;

/// A frame. The first four come from servers, the next four from clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// INFO: the properties of the server, as JSON.
    Info(&'a str),
    /// MSG, or HMSG if it has headers: a message for a subscription.
    Message {
        /// The subject it was published to.
        subject: &'a str,
        /// The subscription, as numbered by the client.
        id: u64,
        /// The subject for answers.
        reply: Option<&'a str>,
        /// The headers: `NATS/1.0` and lines, up to an empty one.
        headers: Option<&'a [u8]>,
        /// The payload.
        payload: &'a [u8],
    },
    /// +OK.
    Ok,
    /// -ERR, with the description.
    Error(&'a str),
    /// CONNECT: the properties of the client, as JSON.
    Connect(&'a str),
    /// PUB, or HPUB if it has headers.
    Publish {
        /// The subject.
        subject: &'a str,
        /// The subject for answers.
        reply: Option<&'a str>,
        /// The headers: `NATS/1.0` and lines, up to an empty one.
        headers: Option<&'a [u8]>,
        /// The payload.
        payload: &'a [u8],
    },
    /// SUB.
    Subscribe {
        /// The filter.
        subject: &'a str,
        /// The group of which one member receives each message.
        queue: Option<&'a str>,
        /// The client's number for the subscription.
        id: u64,
    },
    /// UNSUB.
    Unsubscribe {
        /// The subscription.
        id: u64,
        /// The subscription ends after this number of messages, instead of now.
        max: Option<u64>,
    },
    /// PING.
    Ping,
    /// PONG.
    Pong,
}

/// The largest accepted frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum length of a line, in bytes.
    pub line: usize,
    /// Maximum length of headers and payload together, in bytes.
    pub payload: usize,
}

impl Bounds {
    /// Bounds for the frames of a server whose messages have up to `payload` bytes.
    pub const fn of_payload(payload: usize) -> Self {
        Self { line: 64 * 1024, payload }
    }
}

/// The input violates the protocol or is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// A line exceeds [`Bounds::line`].
    #[error("a line is longer than {0} bytes")]
    Line(usize),
    /// A message exceeds [`Bounds::payload`].
    #[error("a message has {0} bytes, more than the server's max_payload")]
    Payload(usize),
    /// The verb of a line is not known.
    #[error("unknown operation")]
    Verb,
    /// A line is malformed.
    #[error("malformed {0}")]
    Malformed(&'static str),
}
