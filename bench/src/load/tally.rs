//! What is counted while the load runs.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::answers::Answer;

/// Ways in which a request fails. Each failed request counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errors {
    /// Connections that could not be made. With keep-alive no request was lost by it.
    pub connect: u64,
    /// No whole answer within the time allowed.
    pub timeout: u64,
    /// The connection broke.
    pub reset: u64,
    /// The connection was closed in good order, but before the answer's end.
    pub closed: u64,
    /// The answer was no HTTP, or more than was asked for.
    pub malformed: u64,
}

impl Errors {
    /// Of all kinds.
    pub fn total(&self) -> u64 {
        self.connect + self.timeout + self.reset + self.closed + self.malformed
    }
}

/// Whole answers by the first digit of their status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statuses {
    /// 200 to 299.
    #[serde(rename = "2xx")]
    pub success: u64,
    /// 300 to 399.
    #[serde(rename = "3xx")]
    pub redirection: u64,
    /// 400 to 499.
    #[serde(rename = "4xx")]
    pub client_error: u64,
    /// 500 to 599.
    #[serde(rename = "5xx")]
    pub server_error: u64,
    /// Anything else.
    pub other: u64,
}

impl Statuses {
    fn count(&mut self, status: u16) {
        *match status / 100 {
            2 => &mut self.success,
            3 => &mut self.redirection,
            4 => &mut self.client_error,
            5 => &mut self.server_error,
            _ => &mut self.other,
        } += 1;
    }
}

/// How a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Connect,
    Timeout,
    Reset,
    Closed,
    Malformed,
}

/// Counts of the requests that were meant to start within the measured time.
pub(crate) struct Tally {
    pub(crate) offered: u64,
    pub(crate) completed: u64,
    /// Requests that were under way before the measured time began, and still when it ended.
    pub(crate) starved: u64,
    pub(crate) errors: Errors,
    pub(crate) statuses: Statuses,
    /// In nanoseconds.
    pub(crate) latency: Histogram<u64>,
    /// The same of the successful answers only.
    pub(crate) success: Histogram<u64>,
    /// Theirs from when a connection took them up.
    pub(crate) served: Histogram<u64>,
}

impl Default for Tally {
    fn default() -> Self {
        // It grows by itself, and then every value fits.
        let latency = Histogram::new(3).expect("three digits are possible");
        let (success, served) = (latency.clone(), latency.clone());
        let (errors, statuses) = Default::default();
        Self { offered: 0, completed: 0, starved: 0, errors, statuses, latency, success, served }
    }
}

impl Tally {
    pub(crate) fn complete(&mut self, answer: Answer, latency: u64, served: u64) {
        self.completed += 1;
        self.statuses.count(answer.status);
        self.latency.record(latency).expect("every value fits");
        if answer.status / 100 == 2 {
            self.success.record(latency).expect("every value fits");
            self.served.record(served).expect("every value fits");
        }
    }

    pub(crate) fn fail(&mut self, failure: Failure) {
        *match failure {
            Failure::Connect => &mut self.errors.connect,
            Failure::Timeout => &mut self.errors.timeout,
            Failure::Reset => &mut self.errors.reset,
            Failure::Closed => &mut self.errors.closed,
            Failure::Malformed => &mut self.errors.malformed,
        } += 1;
    }
}
