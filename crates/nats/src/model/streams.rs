//! The streams of the model: one copy of each, which lasts as long as the model.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::subject::matches;

/// The time of all messages.
const TIME: &str = "2024-01-01T00:00:00.123456789Z";

/// All streams.
#[derive(Default)]
pub(super) struct Streams {
    by_name: BTreeMap<String, Stream>,
    /// The number of requests to create a stream.
    created: u64,
    /// The number of the last message that the lagging replica has of each stream; `None` if the replica does not lag.
    lagging: Option<BTreeMap<String, u64>>,
}

struct Stream {
    /// Represents the creation time.
    created: u64,
    config: Value,
    subjects: Vec<String>,
    per_subject: i64,
    messages: BTreeMap<u64, Stored>,
    last: u64,
    /// Its leader stores no messages, and does not answer requests to do so.
    is_unwritable: bool,
}

struct Stored {
    subject: String,
    /// The headers of the request that stored it, up to the empty line.
    headers: String,
    payload: Vec<u8>,
}

/// An answer: headers and payload.
pub(super) type Answer = (Option<Vec<u8>>, Vec<u8>);

#[derive(Deserialize)]
struct Config {
    subjects: Vec<String>,
    max_msgs_per_subject: i64,
}

/// A request for a message, or to remove messages.
#[derive(Default, Deserialize)]
#[serde(default)]
struct MessageRequest {
    seq: u64,
    last_by_subj: Option<String>,
    next_by_subj: Option<String>,
    filter: Option<String>,
}

impl Streams {
    pub(super) fn lose_all(&mut self) {
        self.by_name.clear();
    }

    /// Removes the messages whose subject contains `part`.
    pub(super) fn remove_stored(&mut self, part: &str) {
        for stream in self.by_name.values_mut() {
            stream.messages.retain(|_, stored| !stored.subject.contains(part));
        }
    }

    /// Removes the messages of a stream after `last`, and leaves all later requests to store one unanswered.
    pub(super) fn make_unwritable(&mut self, name: &str, last: u64) {
        let stream = self.by_name.get_mut(name).expect("the stream exists");
        stream.messages.retain(|number, _| *number <= last);
        (stream.last, stream.is_unwritable) = (last, true);
    }

    /// Whether a request to store a message of this subject is left unanswered.
    pub(super) fn is_unwritable(&self, subject: &str) -> bool {
        let stores =
            |stream: &Stream| stream.subjects.iter().any(|filter| matches(filter, subject));
        self.by_name.values().any(|stream| stream.is_unwritable && stores(stream))
    }

    /// Sets whether a lagging replica answers direct requests. It gets no messages from now on.
    pub(super) fn set_lagging(&mut self, lags: bool) {
        let known =
            || self.by_name.iter().map(|(name, stream)| (name.clone(), stream.last)).collect();
        self.lagging = lags.then(known);
    }

    /// Processes a message if it is a request, or if a stream stores its subject. Returns the answer.
    pub(super) fn take(
        &mut self,
        subject: &str,
        headers: Option<&[u8]>,
        payload: &[u8],
    ) -> Option<Answer> {
        if let Some(name) = subject.strip_prefix("$JS.API.DIRECT.GET.") {
            let last =
                self.lagging.as_ref().map(|last| last.get(name).copied().unwrap_or_default());
            let stream = self.by_name.get(name)?;
            return Some(stream.answer(name, payload, last.unwrap_or(u64::MAX)));
        }
        if let Some(request) = subject.strip_prefix("$JS.API.STREAM.") {
            let (method, name) = request.rsplit_once('.')?;
            let answer = match method {
                "CREATE" => self.create(name, payload),
                _ => self.of_existing(method, name, payload),
            };
            return Some((None, answer.to_string().into_bytes()));
        }
        let stores =
            |stream: &Stream| stream.subjects.iter().any(|filter| matches(filter, subject));
        let (name, stream) = self.by_name.iter_mut().find(|(_, stream)| stores(stream))?;
        let answer = match stream.append(subject, headers, payload) {
            Ok(number) => json!({ "stream": name, "seq": number }),
            Err(last) => error(10071, &format!("wrong last sequence: {last}")),
        };
        Some((None, answer.to_string().into_bytes()))
    }

    fn create(&mut self, name: &str, payload: &[u8]) -> Value {
        let Ok(config) = serde_json::from_slice::<Value>(payload) else {
            return error(10025, "invalid JSON");
        };
        let Ok(read) = serde_json::from_value::<Config>(config.clone()) else {
            return error(10025, "invalid JSON");
        };
        self.created += 1;
        let created = self.created;
        let stream = self.by_name.entry(name.to_owned()).or_insert_with(|| Stream {
            created,
            config: config.clone(),
            subjects: read.subjects,
            per_subject: read.max_msgs_per_subject,
            messages: BTreeMap::new(),
            last: 0,
            is_unwritable: false,
        });
        match stream.config == config {
            true => {
                // Clusters of servers up to 2.12.14 do this.
                stream.created = created;
                stream.described()
            }
            false => error(10058, "stream name already in use with a different configuration"),
        }
    }

    fn of_existing(&mut self, method: &str, name: &str, payload: &[u8]) -> Value {
        let Some(stream) = self.by_name.get_mut(name) else {
            return error(10059, "stream not found");
        };
        match method {
            "INFO" => stream.described(),
            "MSG.GET" => match stream.find(payload, u64::MAX) {
                Some((seq, Stored { subject, headers, payload })) => {
                    let (hdrs, data) = (STANDARD.encode(headers), STANDARD.encode(payload));
                    let message = json!({
                        "subject": subject, "seq": seq, "hdrs": hdrs, "data": data, "time": TIME
                    });
                    json!({ "message": message })
                }
                None => error(10037, "no message found"),
            },
            "UPDATE" => match serde_json::from_slice(payload) {
                Ok(config) => {
                    stream.config = config;
                    stream.described()
                }
                Err(_) => error(10025, "invalid JSON"),
            },
            "PURGE" => match serde_json::from_slice(payload) {
                Ok(MessageRequest { filter: Some(filter), .. }) => {
                    stream.messages.retain(|_, stored| !matches(&filter, &stored.subject));
                    json!({ "success": true })
                }
                Ok(MessageRequest { seq, .. }) => {
                    stream.messages = stream.messages.split_off(&seq);
                    json!({ "success": true })
                }
                Err(_) => error(10025, "invalid JSON"),
            },
            "DELETE" => {
                self.by_name.remove(name);
                json!({ "success": true })
            }
            _ => error(10000, "not modelled"),
        }
    }
}

impl Stream {
    fn described(&self) -> Value {
        let first = self.messages.keys().next().copied();
        let bytes: usize = self.messages.values().map(|stored| stored.payload.len()).sum();
        let first = first.unwrap_or(if self.last == 0 { 0 } else { self.last + 1 });
        let state = json!({ "first_seq": first, "last_seq": self.last, "bytes": bytes });
        json!({ "config": self.config, "state": state, "created": self.created.to_string() })
    }

    /// The last message of a subject, of those up to a number.
    fn last_of(&self, subject: &str, up_to: u64) -> Option<(u64, &Stored)> {
        let mut before = self.messages.range(..=up_to).rev();
        let found = before.find(|(_, stored)| stored.subject == subject);
        found.map(|(number, stored)| (*number, stored))
    }

    /// Stores a message. If it is not expected, returns the number of the last one.
    fn append(
        &mut self,
        subject: &str,
        headers: Option<&[u8]>,
        payload: &[u8],
    ) -> Result<u64, u64> {
        let headers = String::from_utf8_lossy(headers.unwrap_or_default());
        for line in headers.lines() {
            let (last, expected) = match line.split_once(": ") {
                Some(("Nats-Expected-Last-Sequence", number)) => (self.last, number),
                Some(("Nats-Expected-Last-Subject-Sequence", number)) => {
                    (self.last_of(subject, u64::MAX).map_or(0, |(number, _)| number), number)
                }
                _ => continue,
            };
            if expected.parse() != Ok(last) {
                return Err(last);
            }
        }
        self.last += 1;
        let headers = headers.trim_end().to_owned();
        let stored = Stored { subject: subject.to_owned(), headers, payload: payload.to_vec() };
        self.messages.insert(self.last, stored);
        let of_subject = self.messages.iter().filter(|(_, stored)| stored.subject == subject);
        let numbers: Vec<_> = of_subject.map(|(number, _)| *number).collect();
        if let Ok(max) = usize::try_from(self.per_subject) {
            for number in &numbers[..numbers.len().saturating_sub(max)] {
                self.messages.remove(number);
            }
        }
        Ok(self.last)
    }

    /// Finds a message, of those up to a number.
    fn find(&self, payload: &[u8], up_to: u64) -> Option<(u64, &Stored)> {
        let request: MessageRequest = serde_json::from_slice(payload).unwrap_or_default();
        match request {
            MessageRequest { last_by_subj: Some(subject), .. } => self.last_of(&subject, up_to),
            MessageRequest { seq, next_by_subj: Some(filter), .. } => {
                let mut after =
                    self.messages.range(seq..).take_while(|(number, _)| **number <= up_to);
                let found = after.find(|(_, stored)| matches(&filter, &stored.subject));
                found.map(|(number, stored)| (*number, stored))
            }
            MessageRequest { seq, .. } => {
                let found = self.messages.get(&seq).filter(|_| seq <= up_to);
                found.map(|stored| (seq, stored))
            }
        }
    }

    /// Answers a direct request of a replica that has the messages up to a number.
    fn answer(&self, name: &str, payload: &[u8], up_to: u64) -> Answer {
        match self.find(payload, up_to) {
            None => (Some(b"NATS/1.0 404 Message Not Found\r\n\r\n".to_vec()), Vec::new()),
            Some((number, Stored { subject, headers, payload })) => {
                let headers = if headers.is_empty() { "NATS/1.0" } else { headers };
                let headers = format!(
                    "{headers}\r\nNats-Stream: {name}\r\nNats-Subject: {subject}\r\nNats-Sequence: {number}\r\n\
                     Nats-Time-Stamp: {TIME}\r\n\r\n"
                );
                (Some(headers.into_bytes()), payload.clone())
            }
        }
    }
}

fn error(number: u32, description: &str) -> Value {
    json!({ "error": { "code": 400, "err_code": number, "description": description } })
}
