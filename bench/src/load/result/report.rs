//! The report of a run.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::counts::{Counts, Errors, Statuses};
use crate::load::options::Options;
use crate::load::phases::Measured;
use crate::measure::stretch;
use crate::system::{Events, Part};

/// The report of a run. Unless stated otherwise, figures cover the requests with an intended start within the
/// measured interval; `offered = completed + errors + backlog`, except that `errors.connect` counts connections
/// with keep-alive.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// The requested URL.
    pub url: String,
    /// With `https`: version and cipher suite of the first connection.
    #[serde(default)]
    pub tls: Option<String>,
    /// The client's driver: `uring` or `poll`; `tokio` with HTTP/3.
    pub driver: String,
    /// Number of connections.
    pub connections: usize,
    /// Concurrent requests per connection.
    pub pipeline: usize,
    /// With users: minimum pause between pages, in seconds.
    pub think: Option<f64>,
    /// Open loop: intended requests per second. Closed loop: `None`.
    pub rate: Option<f64>,
    /// Length of the measured interval in seconds, without the requests in flight at its end.
    pub seconds: f64,
    /// Requests with an intended start in the interval.
    pub offered: u64,
    /// Complete answers of any status.
    pub completed: u64,
    /// Open loop: requests for which no connection became free by the end of the interval, or of the `--finish`
    /// period after it.
    pub backlog: u64,
    /// Requests from the warm-up that were unanswered at the end of the measured interval. They are not part of
    /// any latency.
    pub starved: u64,
    /// Visits that have resumed a TLS session.
    #[serde(default)]
    pub resumed: u64,
    /// Complete answers per second within the measured interval.
    pub requests_per_second: f64,
    /// Bytes received within the measured interval, including heads.
    pub bytes: u64,
    /// From the intended start to the last byte.
    pub latency: Latency,
    /// The same for successful answers (2xx) only; rejections under overload are fast.
    pub success_latency: Latency,
    /// The same for successful answers, from the time a connection was free. In open loop, `latency` and
    /// `success_latency` also include the wait for a free connection.
    #[serde(default)]
    pub served_latency: Latency,
    /// Goodput: successful answers within the objective.
    pub good: u64,
    /// Answers by class.
    pub status: Statuses,
    /// Errors by kind.
    pub errors: Errors,
    /// Processor time of the load per answer, in microseconds. In open loop this includes polling the clock.
    pub client_cpu_us_per_request: f64,
    /// Share of the measured interval in which the load's thread was not idly polling the clock. Near 1, the load
    /// is the bottleneck.
    pub client_busy: f64,
    /// Processor time of the watched processes per answer.
    pub server_cpu_us_per_request: Option<f64>,
    /// Hardware events of the watched processes per answer, if the machine counts them.
    #[serde(default)]
    pub server_events_per_request: Option<Events>,
    /// The same without the kernel.
    #[serde(default)]
    pub server_user_events_per_request: Option<Events>,
    /// The source of the figures. In JSON only with `--raw`, for a process that adds several reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) raw: Option<Raw>,
}

/// Counts and readings of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Raw {
    pub(crate) counts: Counts,
    /// Requests without a connection at the end.
    pub(crate) backlog: u64,
    pub(crate) measured: Measured,
}

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The mean.
    pub mean_us: f64,
    /// The standard deviation.
    #[serde(default)]
    pub deviation_us: f64,
    /// The median.
    pub p50_us: f64,
    /// 90th percentile.
    pub p90_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    #[serde(rename = "p99.9_us")]
    pub p999_us: f64,
    /// 99.99th percentile.
    #[serde(rename = "p99.99_us")]
    pub p9999_us: f64,
    /// The maximum.
    pub max_us: f64,
}

impl Latency {
    fn from_histogram(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        Self {
            mean_us: histogram.mean() / 1e3,
            deviation_us: histogram.stdev() / 1e3,
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
    /// Adds the hardware events of an answer to the report of the benchmark, as those of a stretch.
    pub(crate) fn add_events(&self, of: &str) {
        let parts = [
            (Part::All, self.server_events_per_request),
            (Part::User, self.server_user_events_per_request),
        ];
        for (part, events) in parts {
            if let Some(events) = events {
                stretch::add(of, part, events);
            }
        }
    }

    /// An empty report of a run with these options and this driver.
    pub(crate) fn new(options: &Options, driver: &str) -> Self {
        Self {
            url: options.url.to_string(),
            driver: driver.to_owned(),
            connections: options.connections,
            pipeline: options.pipeline,
            think: options.think.map(|think| think.as_secs_f64()),
            rate: options.rate,
            ..Self::default()
        }
    }

    /// Successful answers per second within the measured interval.
    pub(crate) fn successes_per_second(&self) -> f64 {
        self.requests_per_second * self.status.success as f64 / self.completed.max(1) as f64
    }

    /// Computes the figures.
    pub(crate) fn fill(&mut self, raw: Raw, objective: Duration) {
        let Raw { counts, backlog, measured } = &raw;
        let answered = measured.answered.max(1) as f64;
        let each = |seconds: f64| seconds * 1e6 / answered;
        let events = |events: Option<Events>| events.map(|events| events.divided_by(answered));
        self.seconds = measured.seconds;
        self.offered = counts.offered;
        self.completed = counts.completed;
        self.backlog = *backlog;
        self.starved = counts.starved;
        self.resumed = counts.resumed;
        self.requests_per_second = measured.answered as f64 / measured.seconds.max(1e-9);
        self.bytes = measured.bytes;
        self.good = counts.histograms.success.0.count_between(0, objective.as_nanos() as u64);
        self.status = counts.statuses;
        self.errors = counts.errors;
        self.client_cpu_us_per_request = each(measured.client_cpu);
        self.client_busy = measured.client_busy / measured.seconds.max(1e-9);
        self.server_cpu_us_per_request = measured.server_cpu.map(each);
        self.server_events_per_request = events(measured.server_events);
        self.server_user_events_per_request = events(measured.server_user_events);
        self.latency = Latency::from_histogram(&counts.histograms.latency.0);
        self.success_latency = Latency::from_histogram(&counts.histograms.success.0);
        self.served_latency = Latency::from_histogram(&counts.histograms.served.0);
        self.raw = Some(raw);
    }

    /// The report of processes that loaded the same server at the same time.
    ///
    /// # Panics
    /// If there is no report, or one of several has no raw counts.
    pub(crate) fn together(mut reports: Vec<Self>) -> Self {
        if reports.len() == 1 {
            return reports.remove(0);
        }
        let all: Vec<&Raw> =
            reports.iter().map(|report| report.raw.as_ref().expect("raw counts")).collect();
        let measured: Vec<Measured> = all.iter().map(|raw| raw.measured).collect();
        let mut raw = Raw { measured: Measured::together(&measured), ..Raw::default() };
        for one in all {
            raw.counts.add(&one.counts);
            raw.backlog += one.backlog;
        }
        let mut together = reports[0].clone();
        together.fill(raw, Duration::ZERO);
        together.connections = reports.iter().map(|report| report.connections).sum();
        together.rate = reports.iter().map(|report| report.rate).sum();
        together.good = reports.iter().map(|report| report.good).sum();
        together
    }

    /// The report as indented JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("serializable values")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_load_a_server_together_have_one_report() {
        let options = Options::new("http://127.0.0.1/".parse().unwrap());
        let report = |answered| {
            let mut counts = Counts { completed: answered, ..Counts::default() };
            counts.histograms.success.record(answered);
            let mut measured = Measured { answered, bytes: 10 * answered, ..Measured::default() };
            (measured.seconds, measured.client_cpu, measured.server_cpu) = (2.0, 1.5, Some(3.0));
            let mut report = Report::new(&options, "poll");
            report.fill(Raw { counts, backlog: 1, measured }, Duration::from_secs(1));
            report
        };
        let both = Report::together(vec![report(100), report(200)]);
        assert_eq!((both.completed, both.backlog, both.bytes, both.good), (300, 2, 3000, 2));
        assert_eq!(both.requests_per_second, 150.0);
        assert_eq!(both.client_cpu_us_per_request, 1e4);
        // Each process has read the whole time of the server.
        assert_eq!(both.server_cpu_us_per_request, Some(1e4));
    }
}
