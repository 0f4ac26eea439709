//! The measured program.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use phalanx::runtime::{Indicators, Measured, PROFILE_VARIABLE, Setting, Totals};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::load;
use crate::admin;

/// Time between two samples of the totals.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);
/// Time between two attempts while the program starts or ends.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// Time for the program to end after SIGTERM.
const END_TIMEOUT: Duration = Duration::from_secs(15);

/// The effects of a load.
pub(super) struct Sample {
    pub(super) indicators: Indicators,
    pub(super) measured: Measured,
    /// Whether the p99 is the one that the load has printed.
    pub(super) has_printed_p99: bool,
}

/// The running program, which a signal to this process also ends.
static RUNNING: Mutex<Option<Pid>> = Mutex::new(None);

/// Ends the running program, and this process, at a termination signal. The load ends by itself.
///
/// # Errors
/// If the signals cannot be handled.
pub(super) fn end_at_signals() -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGHUP, SIGINT])?;
    thread::spawn(move || {
        let Some(signal) = signals.forever().next() else { return };
        // Stays locked until the process ends, so that no other program starts.
        let running = running();
        if let Some(program) = *running {
            let _ = kill_process(program, Signal::TERM);
        }
        std::process::exit(128 + signal)
    });
    Ok(())
}

fn running() -> MutexGuard<'static, Option<Pid>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The running program. Dropping it ends it.
pub(super) struct Program {
    child: Child,
    admin: SocketAddr,
    stderr: File,
}

impl Program {
    /// Starts the program with a setting, or with its default.
    ///
    /// # Errors
    /// If it does not start, or has no admin pages.
    pub(super) fn start(
        command: &[OsString],
        setting: Option<Setting>,
        timeout: Duration,
    ) -> Result<Self, String> {
        let name = command[0].to_string_lossy().into_owned();
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|it| it.local_addr());
        let admin =
            address.map_err(|error| format!("no free port for the admin pages: {error}"))?;
        let stderr = tempfile::tempfile().and_then(|file| Ok((file.try_clone()?, file)));
        let (stderr, child_stderr) =
            stderr.map_err(|error| format!("no temporary file: {error}"))?;
        let setting = setting.map(|setting| format!("{setting} ")).unwrap_or_default();
        let mut running = running();
        let child = Command::new(&command[0])
            .args(&command[1..])
            .env(PROFILE_VARIABLE, format!("{setting}admin={admin}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(child_stderr)
            .spawn()
            .map_err(|error| format!("cannot start {name}: {error}"))?;
        *running = Some(Pid::from_child(&child));
        drop(running);
        let mut program = Self { child, admin, stderr };
        let start = Instant::now();
        loop {
            if let Ok(Some(status)) = program.child.try_wait() {
                return Err(format!("{name} ended with {status}:\n{}", program.stderr_tail()));
            }
            if admin::get(admin, "/placement.json").is_ok() {
                return Ok(program);
            }
            if start.elapsed() > timeout {
                return Err(format!(
                    "{name} did not open its admin pages within {timeout:?}. It must be phalanx web, phalanx \
                     broker, or call Runtime::profiled. Its output:\n{}",
                    program.stderr_tail()
                ));
            }
            thread::sleep(RETRY_INTERVAL);
        }
    }

    fn stderr_tail(&mut self) -> String {
        let mut text = Vec::new();
        let read = self.stderr.seek(SeekFrom::Start(0));
        let _ = read.and_then(|_| self.stderr.read_to_end(&mut text));
        load::tail(&String::from_utf8_lossy(&text)).to_owned()
    }

    /// The setting in force, and the totals.
    fn sample(&self) -> Result<(Setting, Totals), String> {
        let page = admin::get(self.admin, "/placement.json")
            .map_err(|error| format!("the program does not answer at {}: {error}", self.admin))?;
        let invalid_page = || {
            "the program's /placement.json has no setting or totals; it is of another version"
                .to_owned()
        };
        let mut page: serde_json::Value =
            serde_json::from_slice(&page).map_err(|_| invalid_page())?;
        let setting = page["setting"].as_str().ok_or_else(invalid_page)?;
        let setting =
            setting.parse().map_err(|reason| format!("the program's setting: {reason}"))?;
        let totals = serde_json::from_value(page["totals"].take()).map_err(|_| invalid_page())?;
        Ok((setting, totals))
    }

    /// The setting in force: with all processors, if none was given.
    pub(super) fn setting(&self) -> Result<Setting, String> {
        Ok(self.sample()?.0)
    }

    /// The name of its driver.
    pub(super) fn driver(&self) -> Result<String, String> {
        let page = admin::get(self.admin, "/snapshot.json")
            .map_err(|error| format!("the program does not answer at {}: {error}", self.admin))?;
        let page = serde_json::from_slice::<serde_json::Value>(&page).ok();
        let driver = page.as_ref().and_then(|page| page["driver"].as_str());
        let invalid_page = "the program's /snapshot.json has no driver; it is of another version";
        Ok(driver.ok_or(invalid_page)?.to_owned())
    }

    /// Runs the load, and samples the totals while it runs.
    ///
    /// # Errors
    /// If the load fails, the program ends, or nothing was done.
    pub(super) fn measure(&mut self, command: &str) -> Result<Sample, String> {
        let mut samples = vec![self.sample()?.1];
        let is_done = AtomicBool::new(false);
        let p99 = thread::scope(|scope| {
            let load = scope.spawn(|| {
                let p99 = load::run(command);
                is_done.store(true, Ordering::Relaxed);
                p99
            });
            let start = Instant::now();
            while !is_done.load(Ordering::Relaxed) {
                let due = SAMPLE_INTERVAL * samples.len() as u32;
                if start.elapsed() >= due {
                    samples.extend(self.sample().map(|(_, totals)| totals));
                }
                thread::sleep(RETRY_INTERVAL);
            }
            load.join().expect("the load does not panic")
        })?;
        if let Ok(Some(status)) = self.child.try_wait() {
            return Err(format!(
                "the program ended under load with {status}:\n{}",
                self.stderr_tail()
            ));
        }
        samples.push(self.sample()?.1);
        let (indicators, measured) = evaluate(&samples);
        let measured = measured.ok_or_else(|| {
            format!("the load `{command}` caused fewer than 50 operations; does it use the program's address, and is it long enough?")
        })?;
        // The time spent waiting for a batch is added, because it passes before operations are invoked and is not part
        // of their waits.
        let waits_ns = measured.p99_ns + self.setting()?.coalesce_ns as f64;
        let p99_ns = p99.unwrap_or(waits_ns);
        let measured = Measured { p99_ns, ..measured };
        Ok(Sample { indicators, measured, has_printed_p99: p99.is_some() })
    }
}

/// The measurement between the first and the last sample under full load: without the start and the end of the load, if
/// it is long.
fn evaluate(samples: &[Totals]) -> (Indicators, Option<Measured>) {
    let is_busy = |at: &usize| samples[*at + 1].operations > samples[*at].operations;
    let busy: Vec<usize> = (0..samples.len() - 1).filter(is_busy).collect();
    let (start, end) = match busy[..] {
        [_, first, .., last, _] => (first, last + 1),
        _ => (0, samples.len() - 1),
    };
    let mut last = samples[end].clone();
    // Each sample opens a connection itself.
    last.opens = last.opens.saturating_sub((end - start) as u64);
    let (mut indicators, measured) = last.since(&samples[start]);
    // Taken from the middle, because all sockets are closed at the end.
    indicators.sockets = samples[usize::midpoint(start, end)].sockets as f64;
    (indicators, measured)
}

impl Drop for Program {
    fn drop(&mut self) {
        {
            let mut running = running();
            // Signal only a running child: after a wait, its process ID may belong to another process.
            if matches!(self.child.try_wait(), Ok(None)) {
                let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
            }
            *running = None;
        }
        let start = Instant::now();
        while start.elapsed() < END_TIMEOUT {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(RETRY_INTERVAL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_and_the_end_of_a_load_are_left_out() {
        let sample = |(at, operations, sockets): (u64, u64, u64)| Totals {
            uptime_ns: at * 1_000_000_000,
            operations,
            sockets,
            // One for each sample, and one for each ten operations.
            opens: at + operations / 10,
            waits: vec![0; 64],
            ..Totals::default()
        };
        let samples =
            [(0, 0, 0), (1, 10, 4), (2, 1_010, 4), (3, 2_010, 4), (4, 3_010, 4), (5, 3_020, 0)];
        let (indicators, measured) = evaluate(&samples.map(sample));
        assert_eq!((indicators.operations_per_second, indicators.sockets), (1_000.0, 4.0));
        assert_eq!(indicators.opens_per_operation, 0.1, "without those of the looks");
        assert!(measured.is_some());
        let (indicators, _) = evaluate(&[(0, 0, 0), (2, 100, 3)].map(sample));
        assert_eq!(indicators.operations_per_second, 50.0);
    }
}
