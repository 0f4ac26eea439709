//! Measures one run of an arm: queries, and the processor time of both sides.

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use phalanx_testkit::postgres::PostgresServer;
use rustix::time::{ClockId, clock_gettime};

use crate::Arm;
use crate::load::Load;

const WARM_UP: Duration = Duration::from_millis(500);
const DURATION: Duration = Duration::from_secs(2);

/// The figures of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Queries a second.
    pub(crate) rate: f64,
    /// Microseconds of processor time per query: of this process, and of the database's processes.
    pub(crate) client: f64,
    pub(crate) database: f64,
}

impl Sample {
    /// The median of each figure.
    pub(crate) fn median(samples: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> f64| median(samples.iter().map(figure).collect());
        Self { rate: of(|s| s.rate), client: of(|s| s.client), database: of(|s| s.database) }
    }
}

pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Cumulative figures at a moment.
struct Moment {
    time: Instant,
    queries: u64,
    client: Duration,
    database: Duration,
}

impl Moment {
    fn now(server: &PostgresServer, load: &Load) -> Self {
        let used = clock_gettime(ClockId::ProcessCPUTime);
        Self {
            time: Instant::now(),
            queries: load.finished.load(Ordering::Relaxed),
            client: Duration::new(used.tv_sec as u64, used.tv_nsec as u32),
            database: processor_time(server),
        }
    }
}

/// The processor time of a server and its backends.
fn processor_time(server: &PostgresServer) -> Duration {
    let socket = server.socket();
    let folder = socket.parent().unwrap_or(&socket);
    let file = fs::read_to_string(folder.join("data/postmaster.pid")).unwrap_or_default();
    let postmaster = file.lines().next().unwrap_or_default();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let time = |path: PathBuf| {
        let status = fs::read_to_string(path.join("stat")).ok()?;
        let is_postmaster = path.file_name()? == postmaster;
        // The name, in brackets, may contain blanks. The parent is the second field after it.
        let is_backend = status.rsplit(')').next()?.split(' ').nth(2)? == postmaster;
        let scheduled = fs::read_to_string(path.join("schedstat")).ok()?;
        let time = scheduled.split(' ').next()?.parse::<u64>().ok()?;
        (is_postmaster || is_backend).then_some(time)
    };
    Duration::from_nanos(processes.filter_map(|process| time(process.path())).sum())
}

/// Runs an arm until its figures are measured.
pub(crate) fn run(
    server: &PostgresServer,
    load: Arc<Load>,
    arm: Arm,
) -> Result<Sample, Box<dyn Error>> {
    let running = thread::spawn({
        let load = load.clone();
        move || arm(load)
    });
    thread::sleep(WARM_UP);
    let before = Moment::now(server, &load);
    thread::sleep(DURATION);
    let after = Moment::now(server, &load);
    load.stop.store(true, Ordering::Relaxed);
    running.join().map_err(|_| "the arm panicked")?.map_err(|error| error.to_string())?;
    let queries = (after.queries - before.queries) as f64;
    let each = |time: Duration| time.as_secs_f64() * 1e6 / queries;
    Ok(Sample {
        rate: queries / (after.time - before.time).as_secs_f64(),
        client: each(after.client - before.client),
        database: each(after.database - before.database),
    })
}
