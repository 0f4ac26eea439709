//! What a run came to.

use std::time::Duration;

use hdrhistogram::Histogram;
use phalanx::runtime::DriverKind;
use serde::{Deserialize, Serialize};

use super::conduct::Measured;
use super::options::Options;
use super::tally::{Errors, Statuses, Tally};

/// What a run came to. Unless it says otherwise, of the requests that were meant to start within the
/// measured time; `offered = completed + errors + backlog`, except that `errors.connect` counts
/// connections where they are kept alive.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Where the load went.
    pub url: String,
    /// With `https`: version and cipher suite of the first connection.
    #[serde(default)]
    pub tls: Option<String>,
    /// `uring` or `poll`: the client's, not the server's.
    pub driver: String,
    /// Connections at a time.
    pub connections: usize,
    /// Requests under way on each at a time.
    pub pipeline: usize,
    /// Where connections are users: how long they pause between pages at least, in seconds.
    pub think: Option<f64>,
    /// Open loop: requests per second that were meant to start. Closed loop: none.
    pub rate: Option<f64>,
    /// Measured time, in seconds, without what is under way at its end.
    pub seconds: f64,
    /// Requests meant to start.
    pub offered: u64,
    /// Whole answers, whatever their status.
    pub completed: u64,
    /// Open loop: requests meant to start that no connection was free for until the end, or with
    /// `--finish` until then.
    pub backlog: u64,
    /// Requests from the warm-up that were not answered before the end of the measured time. No
    /// latency has them.
    pub starved: u64,
    /// Whole answers per second that came within the measured time.
    pub requests_per_second: f64,
    /// Bytes that came within the measured time, heads included.
    pub bytes: u64,
    /// From the intended start to the last byte.
    pub latency: Latency,
    /// The same of successful answers (2xx) only: an overloaded server refuses quickly.
    pub success_latency: Latency,
    /// Theirs from when a connection was free for them: in open loop the rest was waited for that, and
    /// no server knows of it.
    #[serde(default)]
    pub served_latency: Latency,
    /// Goodput: successful answers that came within the objective.
    pub good: u64,
    /// Answers by class.
    pub status: Statuses,
    /// What failed.
    pub errors: Errors,
    /// The load's own processor time, in microseconds for each answer. In open loop it looks at the
    /// clock without a pause, which is in here too.
    pub client_cpu_us_per_request: f64,
    /// The part of the measured time in which the load's thread had something else to do than to look
    /// at the clock. Where it is near one, it is the load that is measured.
    pub client_busy: f64,
    /// Processor time of the processes that were to be watched, for each answer.
    pub server_cpu_us_per_request: Option<f64>,
    /// How many answers took how long.
    #[serde(skip)]
    pub(crate) histogram: Option<Histogram<u64>>,
}

/// Latencies, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The mean.
    pub mean_us: f64,
    /// The median.
    pub p50_us: f64,
    /// One in ten took longer.
    pub p90_us: f64,
    /// One in a hundred took longer.
    pub p99_us: f64,
    /// One in a thousand took longer.
    #[serde(rename = "p99.9_us")]
    pub p999_us: f64,
    /// One in ten thousand took longer.
    #[serde(rename = "p99.99_us")]
    pub p9999_us: f64,
    /// The longest.
    pub max_us: f64,
}

impl Latency {
    fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        Self {
            mean_us: histogram.mean() / 1e3,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            p9999_us: at(0.9999),
            max_us: histogram.max() as f64 / 1e3,
        }
    }
}

impl Report {
    /// A run of this kind, of which nothing is known yet.
    pub(crate) fn new(options: &Options, driver: DriverKind) -> Self {
        Self {
            url: options.url.to_string(),
            tls: None,
            driver: driver.to_string(),
            connections: options.connections,
            pipeline: options.pipeline,
            think: options.think.map(|think| think.as_secs_f64()),
            rate: options.rate,
            seconds: 0.0,
            offered: 0,
            completed: 0,
            backlog: 0,
            starved: 0,
            requests_per_second: 0.0,
            bytes: 0,
            latency: Latency::default(),
            success_latency: Latency::default(),
            served_latency: Latency::default(),
            good: 0,
            status: Statuses::default(),
            errors: Errors::default(),
            client_cpu_us_per_request: 0.0,
            client_busy: 0.0,
            server_cpu_us_per_request: None,
            histogram: None,
        }
    }

    /// Of the whole answers within the measured time, those that were successes.
    pub(crate) fn successes_per_second(&self) -> f64 {
        self.requests_per_second * self.status.success as f64 / self.completed.max(1) as f64
    }

    /// Takes in what was counted and measured.
    pub(crate) fn fill(
        &mut self,
        tally: Tally,
        backlog: u64,
        measured: Measured,
        objective: Duration,
    ) {
        let each = |seconds: f64| seconds * 1e6 / measured.answered.max(1) as f64;
        self.seconds = measured.seconds;
        self.offered = tally.offered;
        self.completed = tally.completed;
        self.backlog = backlog;
        self.starved = tally.starved;
        self.requests_per_second = measured.answered as f64 / measured.seconds.max(1e-9);
        self.bytes = measured.bytes;
        self.latency = Latency::of(&tally.latency);
        self.success_latency = Latency::of(&tally.success);
        self.served_latency = Latency::of(&tally.served);
        self.good = tally.success.count_between(0, objective.as_nanos() as u64);
        self.status = tally.statuses;
        self.errors = tally.errors;
        self.client_cpu_us_per_request = each(measured.client_cpu);
        self.client_busy = measured.client_busy / measured.seconds.max(1e-9);
        self.server_cpu_us_per_request = measured.server_cpu.map(each);
        self.histogram = Some(tally.latency);
    }

    /// As JSON, with line breaks.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain values")
    }
}
