//! A slice: load on one server from a separate process, and the hardware events of the server meanwhile.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::server::Server;
use super::site::Site;
use crate::error::Error;
use crate::load::{self, Report};
use crate::measure::{Disturbed, EventRow, median};
use crate::system::{Events, Group, interrupted};

/// Time limit of the load process beyond the length of its load.
const LOAD_OVERHEAD: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Length of a slice in a quick run, which only checks that the benchmark runs.
pub(crate) const QUICK: Duration = Duration::from_millis(100);

/// Parameters of load common to all slices.
pub(crate) struct Load<'a> {
    pub(crate) directory: &'a Path,
    pub(crate) site: &'a Site,
    /// Time of the load before the measured requests.
    pub(crate) warmup: Duration,
    pub(crate) slice: Duration,
    /// Number of processes that send the load, if it has several cores of its own.
    pub(crate) processes: usize,
}

/// Parameters of a slice's load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shot {
    pub(crate) connections: usize,
    pub(crate) seed: usize,
    /// Requests per second in open loop.
    pub(crate) rate: Option<f64>,
    /// Response timeout.
    pub(crate) timeout: Duration,
    /// Concurrent requests per connection.
    pub(crate) pipeline: usize,
    /// With users: minimum pause between pages.
    pub(crate) think: Option<Duration>,
    /// In open loop: time at the end for requests that waited for a connection.
    pub(crate) finish: Option<Duration>,
    /// Driver of the load.
    pub(crate) driver: Option<&'static str>,
    /// Whether a connection serves more than one request.
    pub(crate) keep_alive: bool,
}

impl Shot {
    /// The options of `phalanx-bench load` that request the files of `site`.
    pub(crate) fn arguments(&self, site: &Site) -> Vec<OsString> {
        let seconds = |duration: Duration| duration.as_secs_f64().to_string();
        let mut arguments = vec![
            format!("--connections={}", self.connections),
            format!("--seed={}", self.seed),
            format!("--timeout={}", seconds(self.timeout)),
            format!("--zipf={}", site.alpha),
        ];
        arguments.extend((self.pipeline > 1).then(|| format!("--pipeline={}", self.pipeline)));
        arguments.extend(self.think.map(|think| format!("--think={}", seconds(think))));
        arguments.extend(self.rate.map(|rate| format!("--rate={rate}")));
        arguments.extend(self.finish.map(|finish| format!("--finish={}", seconds(finish))));
        arguments.extend(self.driver.map(|driver| format!("--driver={driver}")));
        arguments.extend((!self.keep_alive).then(|| "--no-keep-alive".to_owned()));
        arguments.extend(site.in_order.then(|| "--in-order".to_owned()));
        let mut arguments: Vec<OsString> = arguments.into_iter().map(OsString::from).collect();
        let list = if site.has_pages { "--visits" } else { "--paths" };
        arguments.extend([list.into(), site.paths.clone().into()]);
        arguments
    }

    /// Closed loop with one request per connection at a time.
    pub(crate) fn closed(connections: usize, seed: usize, timeout: Duration) -> Self {
        Self {
            connections,
            seed,
            rate: None,
            timeout,
            pipeline: 1,
            think: None,
            finish: None,
            driver: None,
            keep_alive: true,
        }
    }
}

/// A slice of load on a server.
#[derive(Clone, Debug)]
pub(crate) struct Slice {
    pub(crate) report: load::Report,
    /// Whether other processes used our cores.
    pub(crate) noisy: bool,
}

impl Disturbed for Slice {
    fn is_disturbed(&self) -> bool {
        self.noisy
    }
}

impl Load<'_> {
    /// Sends the load to `server` from processes with the affinity of this one, which share connections and rate.
    pub(crate) fn report(&self, server: &Server, shot: Shot) -> Result<load::Report, Error> {
        let processes = self.processes.clamp(1, shot.connections);
        let part = |n: usize| Shot {
            connections: (shot.connections + n) / processes,
            seed: shot.seed * processes + n,
            rate: shot.rate.map(|rate| rate / processes as f64),
            ..shot
        };
        let started: Vec<_> =
            (0..processes).map(|n| self.start(server, part(n), n)).collect::<Result<_, Error>>()?;
        let each = started.into_iter().enumerate().map(|(n, group)| self.finish(server, group, n));
        Ok(load::Report::together(each.collect::<Result<Vec<_>, Error>>()?))
    }

    /// The files of the process with this number: its report and its errors.
    fn files(&self, number: usize) -> [PathBuf; 2] {
        ["out", "err"].map(|kind| self.directory.join(format!("load-{number}.{kind}")))
    }

    /// Starts a load process.
    fn start(&self, server: &Server, shot: Shot, number: usize) -> Result<Group, Error> {
        use std::os::unix::process::CommandExt;
        let seconds = |duration: Duration| duration.as_secs_f64().to_string();
        let [out, errors] = self.files(number);
        let mut command = Command::new(crate::system::process::own()?);
        command
            .arg("load")
            .arg(format!(
                "http{}://{}/",
                if server.features.tls { "s" } else { "" },
                server.process.address
            ))
            .args(server.features.tls.then_some("--insecure"))
            .args(server.features.http2.then_some("--http2"))
            .args(server.features.http3.then_some("--http3"))
            .args(["--duration", &seconds(self.slice), "--warmup", &seconds(self.warmup)])
            .args(["--json", "--raw"])
            .args(shot.arguments(self.site))
            .args(server.process.family.iter().map(|process| format!("--pid={process}")))
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(File::create(out)?)
            .stderr(File::create(errors)?);
        Ok(Group(command.spawn()?))
    }

    /// Waits for a load process and returns its report.
    fn finish(
        &self,
        server: &Server,
        mut group: Group,
        number: usize,
    ) -> Result<load::Report, Error> {
        let [out, errors] = self.files(number);
        let deadline = Instant::now() + 3 * self.slice + LOAD_OVERHEAD;
        let failed = |reason: String| Error::load(&server.name, reason);
        let status = loop {
            interrupted()?;
            match group.0.try_wait()? {
                Some(status) => break status,
                None if Instant::now() > deadline => return Err(failed("it does not exit".into())),
                None => std::thread::sleep(POLL_INTERVAL),
            }
        };
        let said = fs::read_to_string(&errors).unwrap_or_default();
        if !status.success() {
            return Err(failed(format!("{status}: {}", said.trim())));
        }
        let text = fs::read_to_string(&out)?;
        serde_json::from_str(&text).map_err(|error| failed(error.to_string()))
    }
}

impl Slice {
    /// The slice, unless `server` gave wrong answers or its processor time is unknown.
    pub(crate) fn of_right_answers(self, server: &Server) -> Result<Self, Error> {
        let load::Report { status, errors, completed, .. } = &self.report;
        let reason = match self.report.server_cpu_us_per_request {
            _ if status.success != *completed || errors.malformed > 0 => {
                format!("wrong answers: {status:?} {errors:?}")
            }
            None => "its processor time cannot be read".to_owned(),
            Some(_) => return Ok(self),
        };
        Err(Error::load(&server.name, reason))
    }

    /// A slice without figures.
    #[cfg(test)]
    pub(crate) fn example() -> Self {
        let url = "http://127.0.0.1/".parse().expect("a valid URL");
        Self { report: load::Report::new(&load::Options::new(url), "poll"), noisy: false }
    }

    /// Requests without an answer before the end of the slice.
    pub(crate) fn unanswered(&self) -> u64 {
        self.report.errors.total() + self.report.starved
    }

    /// Processor time of the server per request.
    pub(crate) fn cpu_us(&self) -> f64 {
        self.report.server_cpu_us_per_request.unwrap_or(f64::NAN)
    }

    /// Requests per second.
    pub(crate) fn rps(&self) -> f64 {
        self.report.requests_per_second
    }

    pub(crate) fn p50_us(&self) -> f64 {
        self.report.latency.p50_us
    }

    pub(crate) fn p99_us(&self) -> f64 {
        self.report.latency.p99_us
    }

    /// Received bytes per request.
    pub(crate) fn bytes(&self) -> f64 {
        self.report.bytes as f64 / self.report.completed.max(1) as f64
    }
}

/// Whether a server with this many requests without an answer starves at most a tenth of its connections. The figures of
/// one that starves more are those of a smaller load.
pub(crate) fn serves_all(unanswered: u64, connections: usize, slices: usize) -> bool {
    unanswered * 10 <= (connections * slices) as u64
}

/// The events of all slices so far.
#[derive(Debug, Default)]
pub(super) struct EventLog(Vec<(EventKey, Vec<Events>)>);

/// A server, its connections, its rate, and the part that was counted.
type EventKey = (String, usize, Option<f64>, &'static str);

impl EventLog {
    /// Adds a slice, if the machine counts events.
    pub(super) fn add(&mut self, server: &str, shot: Shot, report: &Report) {
        let parts = [
            ("all", report.server_events_per_request),
            ("user", report.server_user_events_per_request),
        ];
        for (part, events) in parts {
            let Some(events) = events else { continue };
            let key = (server.to_owned(), shot.connections, shot.rate, part);
            match self.0.iter_mut().find(|(other, _)| *other == key) {
                Some((_, all)) => all.push(events),
                None => self.0.push((key, vec![events])),
            }
        }
    }

    pub(super) fn rows(&self) -> Vec<EventRow> {
        let row = |((server, connections, rate, part), all): &(EventKey, Vec<Events>)| {
            EventRow::new(server.clone(), *connections, *rate, part, Events::combine(all, median))
        };
        self.0.iter().map(row).collect()
    }
}
