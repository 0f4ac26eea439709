//! Stores a message on condition that the last message of the stream or subject is the expected one.

use serde::Deserialize;

use super::{JetStream, JetStreamError};

/// The condition for storing a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// None.
    Any,
    /// The last message of the stream has this number; 0 if there was none.
    Last(u64),
    /// The last message of the subject has this number; 0 if there is none.
    LastOfSubject(u64),
}

#[derive(Deserialize)]
struct Ack {
    seq: u64,
}

impl JetStream {
    /// Stores a message in the stream of its subject. Returns its number, when a majority of the stream's replicas
    /// has it.
    ///
    /// The request is sent when the function is called, not when the future is awaited. So the messages of several
    /// calls are stored in the order of the calls, or fail.
    ///
    /// # Errors
    /// [`JetStreamError`]. After [`Timeout`](JetStreamError::Timeout) the message may have been stored, or may be
    /// stored later.
    pub fn append(
        &self,
        subject: &str,
        expected: Expected,
        payload: &[u8],
    ) -> impl Future<Output = Result<u64, JetStreamError>> + use<> {
        let headers = match expected {
            Expected::Any => None,
            Expected::Last(number) => Some(("Nats-Expected-Last-Sequence", number)),
            Expected::LastOfSubject(number) => {
                Some(("Nats-Expected-Last-Subject-Sequence", number))
            }
        };
        let headers = headers.map(|(name, number)| format!("NATS/1.0\r\n{name}: {number}\r\n\r\n"));
        let sent = self.send(subject, headers.as_deref().map(str::as_bytes), payload);
        async move {
            let ack: Ack = sent?.await_answer().await?.decode()?;
            Ok(ack.seq)
        }
    }
}
