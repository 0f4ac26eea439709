//! `phalanx bench concurrency`: Figures 1 and 7(b) and (c) of the TUX paper, what many requests at a time
//! cost, and what a budget and pools save of it.
//!
//! Read `request` (what a request does), `arms` (in which order, and whence the memory), `measure`, `misses`
//! (under cachegrind), `waits` (for I/O), `servers` (the real web server, beside others).

mod arms;
mod measure;
mod misses;
mod options;
mod report;
mod request;
mod servers;
mod waits;

pub use arms::{Allocator, Order};
pub use misses::{MissRow, WebMissRow};
pub use options::Options;
pub use report::{Report, Row};
pub use servers::WebRow;
pub use waits::WaitRow;

pub(crate) use arms::{ARMS, Server, server};
pub(crate) use measure::second_level;
pub(crate) use misses::walk;

use crate::web::{Error, heed_signals, is_interrupted};

/// Measures. Progress goes to stderr. Handles SIGINT and SIGTERM from here on: what was measured before them is
/// reported.
///
/// # Errors
/// When something cannot be measured, or a signal comes before anything was; no process is left behind then either.
pub fn run(options: &Options) -> Result<Report, Error> {
    heed_signals()?;
    let rows = measure::run(options).map_err(Error::Io)?;
    if rows.is_empty() && is_interrupted() {
        return Err(Error::Interrupted);
    }
    let (simulated, served) = (!options.without_misses(), !options.no_servers);
    let waits = part(true, || waits::run(options).map_err(Error::Io))?;
    let misses = part(simulated, || misses::run(options).map_err(Error::Io))?;
    let web = part(served, || servers::run(options))?;
    let web_misses = part(simulated && served, || misses::web(options).map_err(Error::Io))?;
    Ok(Report::new(options, rows, waits, misses, web, web_misses))
}

/// A part of it, where it is wanted: nothing of it once somebody wants an end, which also ends what runs for it.
fn part<T>(wanted: bool, measure: impl FnOnce() -> Result<Vec<T>, Error>) -> Result<Vec<T>, Error> {
    if !wanted || is_interrupted() {
        return Ok(Vec::new());
    }
    measure().or_else(|error| if is_interrupted() { Ok(Vec::new()) } else { Err(error) })
}
