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

use crate::web::Error;

/// Measures. Progress goes to stderr. Handles SIGINT and SIGTERM from here on.
///
/// # Errors
/// When something cannot be measured; no process is left behind then either.
pub fn run(options: &Options) -> Result<Report, Error> {
    let rows = measure::run(options).map_err(Error::Io)?;
    let waits = waits::run(options).map_err(Error::Io)?;
    let with_misses = !options.without_misses();
    let (mut misses, mut web, mut web_misses) = (Vec::new(), Vec::new(), Vec::new());
    if with_misses {
        misses = misses::run(options).map_err(Error::Io)?;
    }
    if !options.no_servers {
        web = servers::run(options)?;
    }
    if !options.no_servers && with_misses {
        web_misses = misses::web(options).map_err(Error::Io)?;
    }
    Ok(Report::new(options, rows, waits, misses, web, web_misses))
}
