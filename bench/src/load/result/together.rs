//! The report of several load processes that ran at the same time.

use super::counts::{Errors, Statuses};
use super::report::{Latency, Report};
use crate::system::hardware::Events;

impl Report {
    /// Combines the reports of processes that loaded the same server together. Counts are sums, latencies are means
    /// weighted by the answers, and maxima are maxima.
    ///
    /// # Panics
    /// If there is no report.
    pub(crate) fn together(mut reports: Vec<Self>) -> Self {
        if reports.len() == 1 {
            return reports.remove(0);
        }
        let sum = |of: fn(&Self) -> u64| reports.iter().map(of).sum::<u64>();
        let total = |of: fn(&Self) -> f64| reports.iter().map(of).sum::<f64>();
        let most = |of: fn(&Self) -> f64| reports.iter().map(of).fold(0.0, f64::max);
        let weighted = |of: &dyn Fn(&Self) -> f64| {
            let answers = sum(|report| report.completed).max(1) as f64;
            reports.iter().map(|report| of(report) * report.completed as f64).sum::<f64>() / answers
        };
        let latency = |of: fn(&Self) -> &Latency| {
            let each = |figure: fn(&Latency) -> f64| weighted(&|report| figure(of(report)));
            Latency {
                mean_us: each(|latency| latency.mean_us),
                deviation_us: each(|latency| latency.deviation_us),
                p50_us: each(|latency| latency.p50_us),
                p90_us: each(|latency| latency.p90_us),
                p99_us: each(|latency| latency.p99_us),
                p999_us: each(|latency| latency.p999_us),
                p9999_us: each(|latency| latency.p9999_us),
                max_us: reports.iter().map(|report| of(report).max_us).fold(0.0, f64::max),
            }
        };
        // Each process relates the whole time of the server to its own answers.
        let watched = reports.iter().all(|report| report.server_cpu_us_per_request.is_some());
        let server = weighted(&|report| report.server_cpu_us_per_request.unwrap_or_default());
        Self {
            connections: reports.iter().map(|report| report.connections).sum(),
            rate: reports.iter().map(|report| report.rate).sum(),
            seconds: most(|report| report.seconds),
            offered: sum(|report| report.offered),
            completed: sum(|report| report.completed),
            backlog: sum(|report| report.backlog),
            starved: sum(|report| report.starved),
            requests_per_second: total(|report| report.requests_per_second),
            bytes: sum(|report| report.bytes),
            latency: latency(|report| &report.latency),
            success_latency: latency(|report| &report.success_latency),
            served_latency: latency(|report| &report.served_latency),
            good: sum(|report| report.good),
            status: Statuses {
                success: sum(|report| report.status.success),
                redirection: sum(|report| report.status.redirection),
                client_error: sum(|report| report.status.client_error),
                server_error: sum(|report| report.status.server_error),
                other: sum(|report| report.status.other),
            },
            errors: Errors {
                connect: sum(|report| report.errors.connect),
                timeout: sum(|report| report.errors.timeout),
                reset: sum(|report| report.errors.reset),
                closed: sum(|report| report.errors.closed),
                malformed: sum(|report| report.errors.malformed),
            },
            client_cpu_us_per_request: weighted(&|report| report.client_cpu_us_per_request),
            client_busy: most(|report| report.client_busy),
            server_cpu_us_per_request: watched.then(|| server / reports.len() as f64),
            server_events_per_request: together_events(&reports, |report| {
                report.server_events_per_request
            }),
            server_user_events_per_request: together_events(&reports, |report| {
                report.server_user_events_per_request
            }),
            histogram: None,
            ..reports[0].clone()
        }
    }
}

/// Each process relates all events of the server to its own answers.
fn together_events(reports: &[Report], of: fn(&Report) -> Option<Events>) -> Option<Events> {
    let answers: u64 = reports.iter().map(|report| report.completed).sum();
    let part = |report: &Report| {
        let share = answers.max(1) as f64 / report.completed.max(1) as f64;
        of(report).map(|events| events.divided_by(share))
    };
    let all: Vec<Events> = reports.iter().map(part).collect::<Option<_>>()?;
    let count = all.len() as f64;
    Some(Events::combine(&all, |each| each.iter().sum::<f64>() / count))
}
