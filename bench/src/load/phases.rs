//! The phases of a run: connect, warm up, measure, wait for requests in flight.

use std::rc::Rc;
use std::time::Duration;

use phalanx::shutdown::{Draining, draining};
use phalanx::task::Either;
use phalanx::{select, sleep, yield_now};
use serde::{Deserialize, Serialize};

use super::drive::{Drive, Phase};
use crate::measure::thread_time;
use crate::system::{Events, HardwareCounters, Part, procfs};

/// Waits shorter than this poll the clock, since timers have a resolution of a millisecond.
const MIN_SLEEP_NANOS: u64 = 3_000_000;

/// Bounds sleeping, so that the end of the run is noticed.
const MAX_SLEEP: Duration = Duration::from_millis(50);

/// Readings at the two ends of the measured interval.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) seconds: f64,
    /// Complete answers within the interval.
    pub(crate) answered: u64,
    /// Received bytes within the interval.
    pub(crate) bytes: u64,
    /// Processor time of the load's thread, in seconds.
    pub(crate) client_cpu: f64,
    /// Share of that time in which the thread was not idle.
    pub(crate) client_busy: f64,
    /// Processor time of the watched processes, in seconds.
    pub(crate) server_cpu: Option<f64>,
    /// Events that the processor counted in the watched processes.
    pub(crate) server_events: Option<Events>,
    /// The same without the kernel.
    pub(crate) server_user_events: Option<Events>,
}

impl Measured {
    /// The readings of processes that loaded the same server at the same time. Each has read the whole time of the server.
    pub(crate) fn together(all: &[Self]) -> Self {
        let count = all.len() as f64;
        let longest = |of: fn(&Self) -> f64| all.iter().map(of).fold(0.0, f64::max);
        let mean = |each: &[f64]| each.iter().sum::<f64>() / count;
        let events = |of: fn(&Self) -> Option<Events>| {
            let all: Option<Vec<Events>> = all.iter().map(of).collect();
            all.map(|all| Events::combine(&all, mean))
        };
        let server_cpu: Option<f64> = all.iter().map(|each| each.server_cpu).sum();
        Self {
            seconds: longest(|each| each.seconds),
            answered: all.iter().map(|each| each.answered).sum(),
            bytes: all.iter().map(|each| each.bytes).sum(),
            client_cpu: all.iter().map(|each| each.client_cpu).sum(),
            client_busy: longest(|each| each.client_busy),
            server_cpu: server_cpu.map(|sum| sum / count),
            server_events: events(|each| each.server_events),
            server_user_events: events(|each| each.server_user_events),
        }
    }
}

/// Lengths of the phases.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    pub(crate) warmup: Duration,
    pub(crate) duration: Duration,
    /// Maximum time for connecting, after which the run starts with the connections made so far.
    pub(crate) connect: Duration,
    /// Processes whose processor time is measured.
    pub(crate) watched: Vec<u32>,
}

/// Conducts the run; ends early when the program is asked to shut down.
pub(crate) async fn run_phases(drive: Rc<Drive>, schedule: Schedule) -> Measured {
    let mut draining = draining();
    let mut waited = Duration::ZERO;
    while drive.connected.get() < drive.plan.connections && waited < schedule.connect {
        waited += Duration::from_millis(1);
        pause(Duration::from_millis(1), &mut draining).await;
    }
    if !schedule.warmup.is_zero() {
        drive.run(drive.clock());
        pause(schedule.warmup, &mut draining).await;
    }
    // Take the slow readings outside the measured interval.
    let before = Reading::take(&drive, &schedule.watched);
    let watched = Some(&schedule.watched).filter(|processes| !processes.is_empty());
    let count = |part| watched.and_then(|processes| HardwareCounters::start(processes, part).ok());
    let counters = [Part::All, Part::User].map(count);
    let (begin, client) = (drive.begin(), thread_time().as_secs_f64());
    drive.run(begin);
    pause(schedule.duration, &mut draining).await;
    let (end, client_after) = (drive.clock(), thread_time().as_secs_f64());
    // Include requests whose intended start passed while the thread was busy.
    drive.admit_arrivals(end);
    drive.enter(Phase::Over);
    let after = Reading::take(&drive, &schedule.watched);
    let [server_events, server_user_events] =
        counters.map(|counters| counters.and_then(|mut counters| counters.read().ok()));
    Measured {
        seconds: (end - begin) as f64 / 1e9,
        answered: after.answered - before.answered,
        bytes: after.bytes - before.bytes,
        client_cpu: client_after - client,
        client_busy: (client_after - client - (after.idle_nanos - before.idle_nanos) as f64 / 1e9)
            .max(0.0),
        server_cpu: after.server_cpu.zip(before.server_cpu).map(|(after, before)| after - before),
        server_events,
        server_user_events,
    }
}

struct Reading {
    answered: u64,
    idle_nanos: u64,
    bytes: u64,
    server_cpu: Option<f64>,
}

impl Reading {
    fn take(drive: &Drive, watched: &[u32]) -> Self {
        let server_cpu = match watched {
            [] => None,
            processes => procfs::run_time(processes).ok(),
        };
        let (answered, idle_nanos, bytes) =
            (drive.answered.get(), drive.idle_nanos.get(), drive.bytes.get());
        Self { answered, idle_nanos, bytes, server_cpu }
    }
}

async fn pause(duration: Duration, draining: &mut Draining) {
    let _: Either<(), ()> = select(draining, sleep(duration)).await;
}

/// Starts requests at their intended times, regardless of the server (open loop). Polls the clock with the rest
/// of the core, since no timer is as precise as the measured latencies.
pub(crate) async fn arrive(drive: Rc<Drive>) {
    while drive.phase() == Phase::Connecting {
        sleep(Duration::from_millis(1)).await;
    }
    let mut looked = None;
    while !drive.is_over() {
        let now = drive.clock();
        if let Some((then, progress_count)) = looked.take()
            && progress_count == drive.progress_count.get()
        {
            drive.idle_nanos.set(drive.idle_nanos.get() + now - then);
        }
        let Some(next) = drive.admit_arrivals(now) else { return };
        match next.saturating_sub(now) {
            long @ MIN_SLEEP_NANOS.. => {
                sleep(Duration::from_nanos(long / 2).min(MAX_SLEEP)).await;
            }
            _ => {
                looked = Some((now, drive.progress_count.get()));
                yield_now().await;
            }
        }
    }
}
