//! Reads stored messages: single ones, or a range in order.
//!
//! Any replica may answer these requests, even one that has not caught up. So a message that was just stored may be
//! missing, and an earlier message may be returned as the last one of a subject. [`JetStream::current_last`] and
//! [`JetStream::current_next`] are answered only by the leader of the stream, at a higher cost for the servers.

use std::collections::VecDeque;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use phalanx::sleep;
use phalanx::time::now;
use serde::Deserialize;

use super::request::{Answer, Pending};
use super::{JetStream, JetStreamError};

/// A stored message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its number in the stream.
    pub number: u64,
    /// Its subject.
    pub subject: String,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// An answer of a stream's leader.
#[derive(Deserialize)]
struct CurrentAnswer {
    message: CurrentMessage,
}

#[derive(Deserialize)]
struct CurrentMessage {
    seq: u64,
    subject: String,
    /// In base64.
    #[serde(default)]
    data: String,
}

/// The error of a leader that has no such message.
const NO_MESSAGE: u32 = 10037;

/// Requests of a [`Range`] at once. Each answer has up to the servers' `max_payload`.
const MAX_AHEAD: usize = 16;

/// Parts of the timeout after which a message is requested again.
const RETRIES: u32 = 50;

impl JetStream {
    /// A message by its number; `None` if the answering replica does not have it.
    ///
    /// # Errors
    /// [`JetStreamError`]; [`Timeout`](JetStreamError::Timeout) also if the stream does not exist.
    pub async fn get(&self, stream: &str, number: u64) -> Result<Option<Stored>, JetStreamError> {
        stored(self.begin_get(stream, number)?.await_answer().await?)
    }

    /// The last message of a subject; `None` if the answering replica has none.
    ///
    /// # Errors
    /// Like [`get`](Self::get).
    pub async fn last(
        &self,
        stream: &str,
        subject: &str,
    ) -> Result<Option<Stored>, JetStreamError> {
        let payload = serde_json::json!({ "last_by_subj": subject }).to_string();
        let request = format!("$JS.API.DIRECT.GET.{stream}");
        stored(self.send(&request, None, payload.as_bytes())?.await_answer().await?)
    }

    /// The first message from number `from` on whose subject matches a filter; `None` if the answering replica has none.
    /// NATS 2.9 or later.
    ///
    /// # Errors
    /// Like [`get`](Self::get).
    pub async fn next(
        &self,
        stream: &str,
        from: u64,
        filter: &str,
    ) -> Result<Option<Stored>, JetStreamError> {
        let payload = serde_json::json!({ "seq": from, "next_by_subj": filter }).to_string();
        let request = format!("$JS.API.DIRECT.GET.{stream}");
        stored(self.send(&request, None, payload.as_bytes())?.await_answer().await?)
    }

    /// Like [`last`](Self::last), answered by the stream's leader, which has all stored messages.
    ///
    /// # Errors
    /// [`JetStreamError`].
    pub async fn current_last(
        &self,
        stream: &str,
        subject: &str,
    ) -> Result<Option<Stored>, JetStreamError> {
        self.current(stream, serde_json::json!({ "last_by_subj": subject })).await
    }

    /// Like [`next`](Self::next), answered by the stream's leader, which has all stored messages.
    ///
    /// # Errors
    /// [`JetStreamError`].
    pub async fn current_next(
        &self,
        stream: &str,
        from: u64,
        filter: &str,
    ) -> Result<Option<Stored>, JetStreamError> {
        self.current(stream, serde_json::json!({ "seq": from, "next_by_subj": filter })).await
    }

    async fn current(
        &self,
        stream: &str,
        request: serde_json::Value,
    ) -> Result<Option<Stored>, JetStreamError> {
        let answer = self.ask("MSG.GET", stream, request.to_string().as_bytes()).await;
        let CurrentAnswer { message: CurrentMessage { seq, subject, data } } = match answer {
            Err(JetStreamError::Refused(NO_MESSAGE, _)) => return Ok(None),
            answer => answer?,
        };
        let payload = STANDARD.decode(data);
        let payload = payload.map_err(|error| JetStreamError::Malformed(error.to_string()))?;
        Ok(Some(Stored { number: seq, subject, payload }))
    }

    /// Reads the messages `first` to `last`, which have to exist.
    pub fn range(&self, stream: &str, first: u64, last: u64) -> Range {
        let (client, stream) = (self.clone(), stream.to_owned());
        Range { client, stream, next: first, next_request: first, last, pending: VecDeque::new() }
    }

    fn begin_get(&self, stream: &str, number: u64) -> Result<Pending, JetStreamError> {
        let payload = format!("{{\"seq\":{number}}}");
        self.send(&format!("$JS.API.DIRECT.GET.{stream}"), None, payload.as_bytes())
    }
}

fn stored(answer: Answer) -> Result<Option<Stored>, JetStreamError> {
    let malformed = |message: &str| JetStreamError::Malformed(message.into());
    match answer.status() {
        None => (),
        Some("404") => return Ok(None),
        Some(other) => return Err(malformed(&format!("status {other}"))),
    }
    let number = answer.header("Nats-Sequence").and_then(|number| number.parse().ok());
    let number = number.ok_or_else(|| malformed("a message without number"))?;
    let subject = answer.header("Nats-Subject").unwrap_or_default().to_owned();
    Ok(Some(Stored { number, subject, payload: answer.payload }))
}

/// A range of stored messages, read in order with several requests at once.
pub struct Range {
    client: JetStream,
    stream: String,
    /// The number of the next message to return, and of the next one to request.
    next: u64,
    next_request: u64,
    last: u64,
    pending: VecDeque<Pending>,
}

impl Range {
    /// The next message; `None` at the end. A missing message, a lost request and a lost connection are tried again
    /// until nothing has arrived for the timeout of the [`JetStream`].
    ///
    /// # Errors
    /// [`JetStreamError`]. The next call tries again.
    pub async fn next(&mut self) -> Result<Option<Stored>, JetStreamError> {
        let limit = now() + self.client.timeout();
        while self.next <= self.last {
            let failed = match self.attempt().await {
                Ok(Some(message)) if message.number == self.next => {
                    self.next += 1;
                    return Ok(Some(message));
                }
                Ok(_) => JetStreamError::Missing(self.next),
                Err(error) => error,
            };
            // Start again, because the pending answers follow the missing one.
            self.pending.clear();
            self.next_request = self.next;
            if now() >= limit {
                return Err(failed);
            }
            sleep(self.client.timeout() / RETRIES).await;
        }
        Ok(None)
    }

    async fn attempt(&mut self) -> Result<Option<Stored>, JetStreamError> {
        while self.next_request <= self.last && self.pending.len() < MAX_AHEAD {
            match self.client.begin_get(&self.stream, self.next_request) {
                Ok(pending) => self.pending.push_back(pending),
                Err(error) if self.pending.is_empty() => return Err(error),
                // Pending answers will make room.
                Err(_) => break,
            }
            self.next_request += 1;
        }
        match self.pending.pop_front() {
            Some(first) => stored(first.await_answer().await?),
            None => Ok(None),
        }
    }
}
