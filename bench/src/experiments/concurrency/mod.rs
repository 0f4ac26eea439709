//! `phalanx-bench concurrency`: the cost of many concurrent requests, and how much of it a budget and pools save.
//! After Figures 1, 7(b) and 7(c) of the TUX paper with synthetic requests, and Figure 1 with real servers, which have
//! neither.
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

pub(crate) use options::Options;
use report::Report;
pub(crate) use arms::{ARMS, Allocator, Order, Server, server};
pub(crate) use measure::second_level;
pub(crate) use misses::walk;

use crate::error::Error;
use crate::system::{install_signal_handlers, is_interrupted};

pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    install_signal_handlers()?;
    let (timed, simulated) = (!options.no_times, !options.without_misses());
    let served = !options.no_servers;
    let rows = part(timed, || times::run(options).map_err(Error::Io))?;
    let waits = part(timed, || waits::run(options).map_err(Error::Io))?;
    let elections = part(timed, || elections::run(options).map_err(Error::Io))?;
    let web = part(timed && served, || servers::times(options))?;
    let misses = part(simulated, || misses::run(options))?;
    let web_misses = part(simulated && served, || servers::misses(options))?;
    if is_interrupted() && rows.is_empty() && misses.is_empty() && web_misses.is_empty() {
        return Err(Error::Interrupted);
    }
    Ok(Report::new(options, rows, waits, elections, misses, web, web_misses))
}

/// Measures a part if it is wanted. After an interruption it is empty.
fn part<T>(wanted: bool, measure: impl FnOnce() -> Result<Vec<T>, Error>) -> Result<Vec<T>, Error> {
    if !wanted || is_interrupted() {
        return Ok(Vec::new());
    }
    measure().or_else(|error| if is_interrupted() { Ok(Vec::new()) } else { Err(error) })
}
