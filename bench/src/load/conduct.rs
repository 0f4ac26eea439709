//! The order of a run: gather the connections, warm up, measure, let what is under way finish.

use std::rc::Rc;
use std::time::Duration;

use phalanx::shutdown::{Draining, draining};
use phalanx::task::Either;
use phalanx::{select, sleep, yield_now};

use super::drive::{Drive, Phase};
use crate::clock::thread_time;
use crate::procfs;

/// Below this an arrival is waited for by looking at the clock: timers ring to the millisecond.
const MIN_SLEEP_NANOS: u64 = 3_000_000;

/// So as not to miss the end of the run.
const MAX_SLEEP: Duration = Duration::from_millis(50);

/// What was read at the two ends of the measured time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measured {
    pub(crate) seconds: f64,
    /// Whole answers that came within that time.
    pub(crate) answered: u64,
    /// All bytes that came within that time.
    pub(crate) bytes: u64,
    /// Processor time of the load's thread, in seconds.
    pub(crate) client_cpu: f64,
    /// The part of it in which there was something to do.
    pub(crate) client_busy: f64,
    /// Processor time of the processes that were to be watched, in seconds.
    pub(crate) server_cpu: Option<f64>,
}

/// How long each part takes.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    pub(crate) warmup: Duration,
    pub(crate) duration: Duration,
    /// For connections to be made, before it starts without those that are not.
    pub(crate) gather: Duration,
    /// Processes to be watched.
    pub(crate) watched: Vec<u32>,
}

/// Conducts the run; ends early when the program is asked to finish.
pub(crate) async fn conduct(drive: Rc<Drive>, schedule: Schedule) -> Measured {
    let mut draining = draining();
    let mut waited = Duration::ZERO;
    while drive.gathered.get() < drive.plan.connections && waited < schedule.gather {
        waited += Duration::from_millis(1);
        pause(Duration::from_millis(1), &mut draining).await;
    }
    if !schedule.warmup.is_zero() {
        drive.run(drive.clock());
        pause(schedule.warmup, &mut draining).await;
    }
    // What takes long is outside of the measured time.
    let before = Reading::take(&drive, &schedule.watched);
    let (begin, client) = (drive.begin(), thread_time().as_secs_f64());
    drive.run(begin);
    pause(schedule.duration, &mut draining).await;
    let (end, client_after) = (drive.clock(), thread_time().as_secs_f64());
    // Also those that nobody has had the time to let arrive.
    drive.let_arrive(end);
    drive.enter(Phase::Over);
    let after = Reading::take(&drive, &schedule.watched);
    Measured {
        seconds: (end - begin) as f64 / 1e9,
        answered: after.answered - before.answered,
        bytes: after.bytes - before.bytes,
        client_cpu: client_after - client,
        client_busy: (client_after - client - (after.idled - before.idled) as f64 / 1e9).max(0.0),
        server_cpu: after.server_cpu.zip(before.server_cpu).map(|(after, before)| after - before),
    }
}

struct Reading {
    answered: u64,
    idled: u64,
    bytes: u64,
    server_cpu: Option<f64>,
}

impl Reading {
    fn take(drive: &Drive, watched: &[u32]) -> Self {
        let server_cpu = match watched {
            [] => None,
            processes => procfs::run_time(processes).ok(),
        };
        let (answered, idled, bytes) = (drive.answered.get(), drive.idled.get(), drive.bytes.get());
        Self { answered, idled, bytes, server_cpu }
    }
}

async fn pause(duration: Duration, draining: &mut Draining) {
    let _: Either<(), ()> = select(draining, sleep(duration)).await;
}

/// Open loop: lets requests arrive, whatever the server does. Takes what is left of the core to look
/// at the clock, since no timer is as exact as the latencies that it is for.
pub(crate) async fn arrive(drive: Rc<Drive>) {
    while drive.phase() == Phase::Gathering {
        sleep(Duration::from_millis(1)).await;
    }
    let mut looked = None;
    while !drive.is_over() {
        let now = drive.clock();
        if let Some((then, stirs)) = looked.take()
            && stirs == drive.stirs.get()
        {
            drive.idled.set(drive.idled.get() + now - then);
        }
        let Some(next) = drive.let_arrive(now) else { return };
        match next.saturating_sub(now) {
            long @ MIN_SLEEP_NANOS.. => {
                sleep(Duration::from_nanos(long / 2).min(MAX_SLEEP)).await;
            }
            _ => {
                looked = Some((now, drive.stirs.get()));
                yield_now().await;
            }
        }
    }
}
