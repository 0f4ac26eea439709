//! The report of several load processes that ran at the same time.

use super::counts::{Errors, Statuses};
use super::histograms::Histograms;
use super::report::Report;
use crate::system::Events;

impl Report {
    /// Combines the reports of processes that loaded the same server together: counts are sums, latencies are those
    /// of all answers.
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
        // Each process relates the whole time of the server to its own answers.
        let watched = reports.iter().all(|report| report.server_cpu_us_per_request.is_some());
        let server = weighted(&|report| report.server_cpu_us_per_request.unwrap_or_default());
        let mut histograms = Histograms::default();
        reports.iter().flat_map(|report| &report.histograms).for_each(|each| histograms.add(each));
        let mut together = Self {
            connections: reports.iter().map(|report| report.connections).sum(),
            rate: reports.iter().map(|report| report.rate).sum(),
            seconds: most(|report| report.seconds),
            offered: sum(|report| report.offered),
            completed: sum(|report| report.completed),
            backlog: sum(|report| report.backlog),
            starved: sum(|report| report.starved),
            resumed: sum(|report| report.resumed),
            requests_per_second: total(|report| report.requests_per_second),
            bytes: sum(|report| report.bytes),
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
            ..reports[0].clone()
        };
        together.set_latencies(histograms);
        together
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
