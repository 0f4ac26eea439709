//! The command line of `phalanx-bench web`.

use std::time::Duration;

use clap::{Args, ValueEnum as _};

use super::scene::Scene;
use crate::arguments::{number, seconds};
use crate::runner::{RunnerOptions, slice};

/// Measure the web server, a bare loop, its threaded twin, nginx and other servers.
///
/// All servers run at once, each bound to one core; the load on another core visits them in turn, in short
/// slices. The main figure is processor time per request. The minimum of the slices shows the machine in its fast
/// state, and ratios are between minima. A slice in which other processes used a core is repeated. Servers that
/// are not installed are listed and left out. Ctrl-C prints the results so far and lists the missing ones.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Scenes of files and requests to measure
    #[arg(
        long = "scene",
        value_name = "NAME,…",
        value_delimiter = ',',
        value_enum,
        default_value = "small"
    )]
    pub(crate) scenes: Vec<Scene>,

    /// All scenes, one after another
    #[arg(long, conflicts_with = "scenes")]
    pub(crate) all: bool,

    /// Numbers of connections, with one round of slices each [default: depends on the scene]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = number(1..=20_000))]
    pub(crate) connections: Vec<usize>,

    /// Slices per server and number of connections; at least 6
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = number(6..=1000))]
    pub(crate) slices: usize,

    /// Length of a slice, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "1.5", value_parser = seconds)]
    pub(crate) slice: Duration,

    /// Only these servers, as in phalanx,nginx or phalanx-uring
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) only: Vec<String>,

    /// Cores and program
    #[command(flatten)]
    pub(crate) runner: RunnerOptions,

    /// Two short slices with few connections: only checks that it runs
    #[arg(long, conflicts_with_all = ["connections", "slices", "slice"])]
    pub(crate) quick: bool,
}

impl Options {
    /// Number of slices, and their length.
    pub(crate) fn slices(&self) -> (usize, Duration) {
        match self.quick {
            true => (2, slice::QUICK),
            false => (self.slices, self.slice),
        }
    }

    /// The selected scenes.
    pub(crate) fn scenes(&self) -> &[Scene] {
        if self.all { Scene::value_variants() } else { &self.scenes }
    }

    /// Numbers of connections in this scene.
    pub(crate) fn connections(&self, scene: Scene) -> Vec<usize> {
        match (self.quick, &*self.connections) {
            (true, _) => scene.connections().iter().copied().filter(|n| *n <= 64).take(2).collect(),
            (false, []) => scene.connections().to_vec(),
            (false, asked) => asked.to_vec(),
        }
    }

    /// Whether to measure the server of this name.
    pub(crate) fn wants(&self, name: &str) -> bool {
        let names = |wanted: &String| {
            name == wanted || name.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('-'))
        };
        self.only.is_empty() || self.only.iter().any(names)
    }
}
