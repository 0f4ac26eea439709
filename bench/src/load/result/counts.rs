//! Counters of a run.

use serde::{Deserialize, Serialize};

use super::histograms::Histograms;
use crate::load::http::responses::Answer;

/// Failed requests by kind. Each failed request counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errors {
    /// Failed connection attempts. A keep-alive client reconnects, so no request is lost.
    pub connect: u64,
    /// No complete response within the timeout.
    pub timeout: u64,
    /// The connection was reset.
    pub reset: u64,
    /// The connection was closed before the end of the response.
    pub closed: u64,
    /// The response was malformed, or no request was outstanding.
    pub malformed: u64,
}

impl Errors {
    /// Sum over all kinds.
    pub fn total(&self) -> u64 {
        self.connect + self.timeout + self.reset + self.closed + self.malformed
    }
}

/// Complete responses by status class.
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

/// Kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Connect,
    Timeout,
    Reset,
    Closed,
    Malformed,
}

/// Counts of the requests with an intended start within the measured interval.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub(crate) offered: u64,
    pub(crate) completed: u64,
    /// Requests sent before the measured interval and still in flight at its end.
    pub(crate) starved: u64,
    /// Visits that have resumed a TLS session.
    pub(crate) resumed: u64,
    pub(crate) errors: Errors,
    pub(crate) statuses: Statuses,
    pub(crate) histograms: Histograms,
}

impl Counts {
    pub(crate) fn complete(&mut self, answer: Answer, latency: u64, served: u64) {
        self.completed += 1;
        self.statuses.count(answer.status);
        self.histograms.latency.record(latency);
        if answer.status / 100 == 2 {
            self.histograms.success.record(latency);
            self.histograms.served.record(served);
        }
    }

    /// Adds the counts of another process.
    pub(crate) fn add(&mut self, other: &Self) {
        let Self { offered, completed, starved, resumed, errors, statuses, histograms } = self;
        for (sum, one) in [
            (offered, other.offered),
            (completed, other.completed),
            (starved, other.starved),
            (resumed, other.resumed),
            (&mut errors.connect, other.errors.connect),
            (&mut errors.timeout, other.errors.timeout),
            (&mut errors.reset, other.errors.reset),
            (&mut errors.closed, other.errors.closed),
            (&mut errors.malformed, other.errors.malformed),
            (&mut statuses.success, other.statuses.success),
            (&mut statuses.redirection, other.statuses.redirection),
            (&mut statuses.client_error, other.statuses.client_error),
            (&mut statuses.server_error, other.statuses.server_error),
            (&mut statuses.other, other.statuses.other),
        ] {
            *sum += one;
        }
        histograms.add(&other.histograms);
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
