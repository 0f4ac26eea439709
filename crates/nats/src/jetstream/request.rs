//! One request and its answer. All requests of a handle share one subscription.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use phalanx::sync::oneshot::{self, LocalReceiver, LocalSender};
use phalanx::time::timeout;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::JetStreamError;
use crate::client::{Client, Message};

/// A handle for requests to JetStream, on the client's processor. Its copies are equivalent.
#[derive(Clone)]
pub struct JetStream(Rc<Requests>);

struct Requests {
    client: Client,
    /// The prefix of the subjects for answers.
    inbox: String,
    subscription: u64,
    next: Cell<u64>,
    waiting: Rc<RefCell<ReplySenders>>,
    timeout: Duration,
}

/// The requests that wait for answers, by number.
type ReplySenders = BTreeMap<u64, LocalSender<Answer>>;

/// An answer.
pub(super) struct Answer {
    pub(super) headers: Option<Vec<u8>>,
    pub(super) payload: Vec<u8>,
}

/// A request that was sent. Dropping it discards the answer.
pub(super) struct Pending {
    number: u64,
    receiver: LocalReceiver<Answer>,
    waiting: Rc<RefCell<ReplySenders>>,
    timeout: Duration,
}

impl JetStream {
    /// A handle whose requests wait for up to `timeout` each. Answers arrive at subjects below `inbox`, which no other
    /// client may use.
    ///
    /// # Panics
    /// If `inbox` is not a valid subject.
    pub fn new(client: &Client, inbox: &str, timeout: Duration) -> Self {
        let waiting = Rc::new(RefCell::new(ReplySenders::new()));
        let of_handler = waiting.clone();
        let subscription = client.subscribe(&format!("{inbox}.*"), None, move |message| {
            on_answer(&of_handler, &message);
        });
        let (client, inbox) = (client.clone(), inbox.to_owned());
        let next = Cell::new(0);
        Self(Rc::new(Requests { client, inbox, subscription, next, waiting, timeout }))
    }

    /// The client.
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    /// Time that a request waits for its answer.
    pub fn timeout(&self) -> Duration {
        self.0.timeout
    }

    /// Sends a request, without waiting.
    pub(super) fn send(
        &self,
        subject: &str,
        headers: Option<&[u8]>,
        payload: &[u8],
    ) -> Result<Pending, JetStreamError> {
        let Requests { client, inbox, next, waiting, timeout, .. } = &*self.0;
        let number = next.get();
        next.set(number + 1);
        client.publish(subject, Some(&format!("{inbox}.{number}")), headers, payload)?;
        let (sender, receiver) = oneshot::local();
        waiting.borrow_mut().insert(number, sender);
        Ok(Pending { number, receiver, waiting: waiting.clone(), timeout: *timeout })
    }

    /// Sends a request of the API, and decodes the answer.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        method: &str,
        stream: &str,
        payload: &[u8],
    ) -> Result<T, JetStreamError> {
        let subject = format!("$JS.API.STREAM.{method}.{stream}");
        self.send(&subject, None, payload)?.await_answer().await?.decode()
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        self.client.unsubscribe(self.subscription);
    }
}

fn on_answer(waiting: &RefCell<ReplySenders>, message: &Message<'_>) {
    let number = message.subject.rsplit('.').next().and_then(|number| number.parse().ok());
    let sender = number.and_then(|number: u64| waiting.borrow_mut().remove(&number));
    if let Some(sender) = sender {
        let headers = message.headers.map(<[u8]>::to_vec);
        sender.send(Answer { headers, payload: message.payload.to_vec() });
    }
}

impl Pending {
    /// Waits for the answer.
    pub(super) async fn await_answer(mut self) -> Result<Answer, JetStreamError> {
        let limit = self.timeout;
        let answer = timeout(limit, &mut self.receiver).await.ok().flatten();
        let answer = answer.ok_or(JetStreamError::Timeout(limit))?;
        match answer.status() {
            Some("503") => Err(JetStreamError::Unavailable),
            _ => Ok(answer),
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.waiting.borrow_mut().remove(&self.number);
    }
}

/// The part common to all answers.
#[derive(Deserialize)]
struct Outcome {
    error: Option<ApiError>,
}

#[derive(Deserialize)]
struct ApiError {
    #[serde(default)]
    err_code: u32,
    #[serde(default)]
    description: String,
}

const STREAM_NOT_FOUND: u32 = 10059;
const WRONG_LAST_SEQUENCE: u32 = 10071;
const NOT_ENABLED: [u32; 2] = [10039, 10076];

impl Answer {
    /// The status in the first line of the headers.
    pub(super) fn status(&self) -> Option<&str> {
        let line = self.headers.as_deref()?.split(|byte| *byte == b'\r').next()?;
        std::str::from_utf8(line).ok()?.split(' ').nth(1)
    }

    /// A header.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let headers = std::str::from_utf8(self.headers.as_deref()?).ok()?;
        // Search backwards, because the servers' own headers come last.
        headers.lines().rev().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// Decodes an answer in JSON.
    pub(super) fn decode<T: DeserializeOwned>(&self) -> Result<T, JetStreamError> {
        let malformed = |error: serde_json::Error| JetStreamError::Malformed(error.to_string());
        let outcome: Outcome = serde_json::from_slice(&self.payload).map_err(malformed)?;
        match outcome.error {
            None => serde_json::from_slice(&self.payload).map_err(malformed),
            Some(ApiError { err_code: STREAM_NOT_FOUND, .. }) => Err(JetStreamError::NoStream),
            Some(ApiError { err_code: WRONG_LAST_SEQUENCE, .. }) => Err(JetStreamError::Unexpected),
            Some(ApiError { err_code, .. }) if NOT_ENABLED.contains(&err_code) => {
                Err(JetStreamError::Unavailable)
            }
            Some(ApiError { err_code, description }) => {
                Err(JetStreamError::Refused(err_code, description))
            }
        }
    }
}
