//! What to measure: the command line of `phalanx bench web`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::load::seconds;

/// Measure the web server beside a bare loop, its threaded twin, nginx and lighttpd.
///
/// All servers are up at once, each bound to one core; the load visits them in turn, in short slices,
/// from another core. What counts is processor time per request; the smallest of the slices shows the
/// machine in its fast state, and ratios are taken between these. A slice in which other processes
/// used a core is repeated.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Connections at a time, one round of slices for each
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "16,64,256,1000",
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=20_000))]
    pub connections: Vec<usize>,

    /// Slices for each server and number of connections; at least 6
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(6..=1000))]
    pub slices: usize,

    /// Length of a slice, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "1.5", value_parser = seconds)]
    pub slice: Duration,

    /// Only these servers, as in phalanx,nginx or phalanx-uring
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub only: Vec<String>,

    /// Where the servers run; otherwise the first core that may be used
    #[arg(long, value_name = "CORE")]
    pub server_core: Option<usize>,

    /// Where the load runs; otherwise the second core that may be used
    #[arg(long, value_name = "CORE")]
    pub load_core: Option<usize>,

    /// The phalanx executable to measure, in place of this one
    #[arg(long, value_name = "PATH")]
    pub phalanx: Option<PathBuf>,

    /// Two short slices with 16 and 64 connections: only shows that it runs
    #[arg(long, conflicts_with_all = ["connections", "slices", "slice"])]
    pub quick: bool,

    /// Write the report as JSON
    #[arg(long)]
    pub json: bool,
}

impl Options {
    /// What is to be measured: numbers of connections, slices, and their length.
    pub(crate) fn plan(&self) -> (Vec<usize>, usize, Duration) {
        match self.quick {
            true => (vec![16, 64], 2, Duration::from_millis(300)),
            false => (self.connections.clone(), self.slices, self.slice),
        }
    }

    /// Whether the server of this name is wanted.
    pub(crate) fn wants(&self, name: &str) -> bool {
        let names = |wanted: &String| {
            name == wanted || name.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('-'))
        };
        self.only.is_empty() || self.only.iter().any(names)
    }
}
