//! `phalanx top`: a program's stages and processors in a terminal.
//!
//! It knows nothing of the program but its address: every figure is of `/snapshot.json`, or of the
//! difference of two. `fetch.rs` gets them, `rows.rs` makes lines of them, `app.rs` is what keys change,
//! `view.rs` draws it, `plain.rs` prints it for `--once`, and
//! `bytes.rs` the byte table.

mod app;
mod bytes;
mod fetch;
mod plain;
mod rows;
mod view;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use clap::Args;
use phalanx::metrics::Interval;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use app::{App, Next};
use fetch::{Failure, Target};

/// Keys are looked at this often.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Show what a Phalanx program does, stage by stage.
///
/// Reads /snapshot.json at the admin address of any Phalanx program, as in
/// `phalanx web --admin 127.0.0.1:8081`. Rates, means and percentiles are of the last interval, maxima
/// since the program's start. Press `?` for the keys.
///
/// Exit codes: 0 when it is left, 1 when nobody answers there or who answers is no Phalanx program,
/// 2 for bad arguments.
#[derive(Args)]
pub(crate) struct Top {
    /// The program's admin address.
    #[arg(value_name = "ADDR:PORT", default_value = "127.0.0.1:8081", env = "PHALANX_ADMIN")]
    address: String,

    /// Seconds between two looks.
    #[arg(long, short, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    every: f64,

    /// Begin with all processors summed.
    #[arg(long)]
    sum: bool,

    /// Look for one interval, print a plain table and exit.
    #[arg(long)]
    once: bool,

    /// Print what each type of operation takes of the cache, in bytes, and exit.
    #[arg(long, conflicts_with_all = ["once", "sum"])]
    bytes: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.05..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err(format!("{text:?} is not a number of seconds from 0.05 to 3600")),
    }
}

impl Top {
    pub(crate) fn run(self) -> ExitCode {
        let target = Target::new(&self.address);
        let outcome = match (self.once, self.bytes) {
            (_, true) => target.snapshot().map(|at| print!("{}", bytes::table(target.name(), &at))),
            (true, _) => self.once(&target),
            _ if !std::io::stdout().is_terminal() => {
                eprintln!("phalanx top: stdout is no terminal; --once prints a plain table");
                return ExitCode::from(2);
            }
            _ => self.watch(target),
        };
        match outcome {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                eprintln!("phalanx top: {failure}");
                ExitCode::FAILURE
            }
        }
    }

    fn once(&self, target: &Target) -> Result<(), Failure> {
        let before = target.snapshot()?;
        thread::sleep(Duration::from_secs_f64(self.every));
        let after = target.snapshot()?;
        let interval = Interval::between(&before, &after).ok_or(Failure::Restarted)?;
        print!("{}", plain::table(target.name(), &after, &interval, self.sum));
        Ok(())
    }

    fn watch(&self, target: Target) -> Result<(), Failure> {
        // Whoever does not answer at all is told on a terminal that was left alone.
        let mut app = App::new(target.name().to_owned(), self.every, self.sum);
        app.take(Ok(target.snapshot()?));
        let every = Arc::new(AtomicU64::new(0));
        let snapshots = look(target, every.clone());
        let mut terminal = ratatui::try_init()?;
        let outcome = interact(&mut app, &mut terminal, &snapshots, &every);
        ratatui::restore();
        Ok(outcome?)
    }
}

/// Looks again and again on a thread of its own, so that keys work while nobody answers.
fn look(
    target: Target,
    every: Arc<AtomicU64>,
) -> Receiver<Result<phalanx::metrics::Snapshot, Failure>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        // The first interval is short, so that something is seen soon.
        let mut wait = Duration::from_millis(250);
        loop {
            // In small steps: a shorter time that is asked for meanwhile is kept.
            let mut slept = Duration::ZERO;
            while slept < wait {
                thread::sleep(POLL_INTERVAL);
                slept += POLL_INTERVAL;
                wait = wait.min(Duration::from_millis(every.load(Ordering::Relaxed).max(250)));
            }
            if sender.send(target.snapshot()).is_err() {
                return;
            }
            wait = Duration::from_millis(every.load(Ordering::Relaxed));
        }
    });
    receiver
}

fn interact(
    app: &mut App,
    terminal: &mut ratatui::DefaultTerminal,
    snapshots: &Receiver<Result<phalanx::metrics::Snapshot, Failure>>,
    every: &AtomicU64,
) -> std::io::Result<()> {
    loop {
        every.store((app.every() * 1000.0) as u64, Ordering::Relaxed);
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
}
