//! `phalanx-bench concurrency`: the cost of many concurrent requests, and how much of it a budget and pools
//! save: after the TUX paper's Figures 1(a), 7(b) and 7(c), with synthetic requests.
//!
//! Read `request` (the work of a request), `arms` (orders and allocators), `times`, `misses` (under cachegrind), `waits`
//! (for I/O), `elections` (where memory is checked), `servers` (the real web server compared with others).

mod arms;
mod elections;
mod measure;
mod misses;
mod options;
mod report;
mod request;
mod servers;
mod times;
mod waits;

pub use arms::{Allocator, Order};
pub use elections::ElectionRow;
pub use misses::{MissRow, WebMissRow};
pub use options::Options;
pub use report::{Report, Row};
pub use servers::WebRow;
pub use waits::WaitRow;

pub(crate) use arms::{ARMS, Server, server};
pub(crate) use measure::second_level;
pub(crate) use misses::walk;

use crate::error::Error;
use crate::system::interrupt::install_signal_handlers;
use crate::system::interrupt::is_interrupted;

/// Runs the benchmark. Progress goes to stderr. SIGINT and SIGTERM end it from here on; the results so far are
/// reported.
///
/// # Errors
/// When a measurement fails, or on a signal before the first result; all child processes are ended.
pub fn run(options: &Options) -> Result<Report, Error> {
    install_signal_handlers()?;
    let rows = times::run(options)?;
    if rows.is_empty() && is_interrupted() {
        return Err(Error::Interrupted);
    }
    let (simulated, served) = (!options.without_misses(), !options.no_servers);
    let waits = part(true, || waits::run(options).map_err(Error::Io))?;
    let elections = part(true, || elections::run(options).map_err(Error::Io))?;
    let misses = part(simulated, || misses::run(options).map_err(Error::Io))?;
    let web = part(served, || servers::run(options))?;
    let web_misses = part(simulated && served, || misses::web(options).map_err(Error::Io))?;
    Ok(Report::new(options, rows, waits, elections, misses, web, web_misses))
}

/// Measures a part if it is wanted. After an interruption it is empty.
fn part<T>(wanted: bool, measure: impl FnOnce() -> Result<Vec<T>, Error>) -> Result<Vec<T>, Error> {
    if !wanted || is_interrupted() {
        return Ok(Vec::new());
    }
    measure().or_else(|error| if is_interrupted() { Ok(Vec::new()) } else { Err(error) })
}
