//! The command line and the scenes.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::arguments::{number, seconds};

/// Measure an axum application on Phalanx, on axum::serve and on a tokio runtime per core.
///
/// `json` answers a small JSON object to 64 connections in closed loop; the figure is the server's processor time per
/// request. `select` reads a row of PostgreSQL by its key, and `insert` answers when a new row is durable, both over 64
/// connections; a figure is also the database's processor time. `axum-serve` has a pool of 32 connections to the
/// database, the others one per processor. `light` has one connection; the figure is the median latency. Each is
/// measured with one processor and with all.
///
/// In `json` and `light`, ntex, monoio (with monoio-http) and may_minihttp are shown beside them: HTTP servers with the
/// same answer, but without axum.
///
/// Build the programs with `cargo xtask peers`, or name them with --program and --others. `select` and `insert` start
/// PostgreSQL from its Debian package in a temporary folder.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// The scenes
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["json", "light"])]
    pub(crate) scenes: Vec<Scene>,

    /// Number of rounds
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = number(1..=1000))]
    pub(crate) rounds: usize,

    /// Length of a slice, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub(crate) slice: Duration,

    /// The program with the servers of the application [default: found in the search path]
    #[arg(long, value_name = "PATH")]
    pub(crate) program: Option<PathBuf>,

    /// The program with ntex, monoio and may_minihttp [default: found in the search path; they are left out without it]
    #[arg(long, value_name = "PATH")]
    pub(crate) others: Option<PathBuf>,

    /// One short round: only checks that it runs
    #[arg(long, conflicts_with_all = ["rounds", "slice"])]
    pub(crate) quick: bool,
}

/// A kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scene {
    /// 64 connections in closed loop
    Json,
    /// Reads of a row in PostgreSQL
    Select,
    /// New rows in PostgreSQL, durable when they are answered
    Insert,
    /// One connection
    Light,
}

impl Scene {
    pub(super) fn connections(self) -> usize {
        if self == Self::Light { 1 } else { 64 }
    }

    pub(super) fn needs_database(self) -> bool {
        matches!(self, Self::Select | Self::Insert)
    }

    /// The targets of its requests, drawn alike.
    pub(super) fn targets(self) -> Vec<String> {
        match self {
            Self::Json | Self::Light => vec!["/json".to_owned()],
            Self::Insert => vec!["/insert".to_owned()],
            Self::Select => (1..=10_000).map(|id| format!("/select/{id}")).collect(),
        }
    }
}
