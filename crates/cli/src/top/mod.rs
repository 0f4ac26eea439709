//! `phalanx top`: a program's stages and processors in a terminal.
//!
//! All figures come from `/snapshot.json`, or from the difference of two snapshots. `fetch.rs` fetches them,
//! `rows.rs` converts them to rows, `app.rs` handles keys, `view.rs` draws the screen, `plain.rs` prints the
//! table of `--once`, `bytes.rs` the byte table, and `placement.rs` the active processors.

mod app;
mod bytes;
mod fetch;
mod placement;
mod plain;
mod rows;
mod view;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use clap::Args;
use phalanx::metrics::Interval;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use app::{App, Next};
use fetch::{Failure, Target};

use crate::stdout;
use crate::units::time;

/// Interval at which keys are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Show the stages of a running Phalanx program
///
/// Reads /snapshot.json at the admin address of a Phalanx program, as in `phalanx web --admin 127.0.0.1:8081`.
/// Rates, means and percentiles are of the last interval, maxima since the program's start. Press `?` for the
/// keys.
///
/// Exit codes: 0 after `q` or a signal; 1 when the address is unreachable or not that of a Phalanx program; 2 for bad
/// arguments.
#[derive(Args)]
pub(crate) struct Top {
    /// Admin address of the program.
    #[arg(value_name = "ADDR:PORT", default_value = "127.0.0.1:8081", env = "PHALANX_ADMIN")]
    address: String,

    /// Interval between snapshots.
    #[arg(long, short, value_name = "time", default_value = "1s", value_parser = every)]
    every: Duration,

    /// Start with the sums over all processors.
    #[arg(long)]
    sum: bool,

    /// Print a plain table of one interval and exit.
    #[arg(long)]
    once: bool,

    /// Print the memory of each type of operation in bytes and exit.
    #[arg(long, conflicts_with_all = ["once", "sum", "every"])]
    bytes: bool,
}

fn every(text: &str) -> Result<Duration, String> {
    time(text, Duration::from_millis(50))
}

impl Top {
    pub(crate) fn run(self) -> ExitCode {
        let target = Target::new(&self.address);
        let result = match (self.once, self.bytes) {
            (_, true) => {
                target.snapshot().map(|at| stdout::print(bytes::table(target.name(), &at)))
            }
            (true, _) => self.once(&target),
            _ if !std::io::stdout().is_terminal() => {
                let message = "phalanx top: stdout is not a terminal; use --once for a plain table";
                stdout::complain(message);
                return ExitCode::from(2);
            }
            _ => self.watch(target).map(|()| ExitCode::SUCCESS),
        };
        match result {
            Ok(code) => code,
            Err(failure) => {
                stdout::complain(format_args!("phalanx top: {failure}"));
                ExitCode::FAILURE
            }
        }
    }

    fn once(&self, target: &Target) -> Result<ExitCode, Failure> {
        let previous = target.snapshot()?;
        thread::sleep(self.every);
        let current = target.snapshot()?;
        let interval = Interval::between(&previous, &current).ok_or(Failure::Restarted)?;
        Ok(stdout::print(plain::table(target.name(), &current, &interval, self.sum)))
    }

    fn watch(&self, target: Target) -> Result<(), Failure> {
        // Report an unreachable address before the terminal is modified.
        let mut app = App::new(target.name().to_owned(), self.every.as_secs_f64(), self.sum);
        app.take(Ok(target.snapshot()?));
        let interval_ms = Arc::new(AtomicU64::new(0));
        let snapshots = fetch_snapshots(target, interval_ms.clone());
        // Registered before the terminal is modified, so that a signal restores it.
        let is_ended = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGHUP, SIGINT] {
            signal_hook::flag::register(signal, is_ended.clone())?;
        }
        let mut terminal = ratatui::try_init()?;
        let result = interact(&mut app, &mut terminal, &snapshots, (&interval_ms, &is_ended));
        ratatui::restore();
        Ok(result?)
    }
}

/// Fetches snapshots on a separate thread, so that keys work while the program does not respond.
fn fetch_snapshots(
    target: Target,
    interval_ms: Arc<AtomicU64>,
) -> Receiver<Result<phalanx::metrics::Snapshot, Failure>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        // The first interval is short, so that figures appear soon.
        let mut wait = Duration::from_millis(250);
        loop {
            // Sleep in small steps, so that a shorter interval takes effect immediately.
            let mut slept = Duration::ZERO;
            while slept < wait {
                thread::sleep(POLL_INTERVAL);
                slept += POLL_INTERVAL;
                wait =
                    wait.min(Duration::from_millis(interval_ms.load(Ordering::Relaxed).max(250)));
            }
            if sender.send(target.snapshot()).is_err() {
                return;
            }
            wait = Duration::from_millis(interval_ms.load(Ordering::Relaxed));
        }
    });
    receiver
}

fn interact(
    app: &mut App,
    terminal: &mut ratatui::DefaultTerminal,
    snapshots: &Receiver<Result<phalanx::metrics::Snapshot, Failure>>,
    (interval_ms, is_ended): (&AtomicU64, &AtomicBool),
) -> std::io::Result<()> {
    while !is_ended.load(Ordering::Relaxed) {
        interval_ms.store((app.interval_seconds() * 1000.0) as u64, Ordering::Relaxed);
        terminal.draw(|frame| view::draw(app, frame))?;
        if event::poll(POLL_INTERVAL)?
            && let Event::Key(key) = event::read()?
            && key.kind != KeyEventKind::Release
            && app.key(key) == Next::Leave
        {
            return Ok(());
        }
        for snapshot in snapshots.try_iter() {
            app.take(snapshot);
        }
    }
    Ok(())
}
