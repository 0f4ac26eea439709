//! `report.json`: figures, machine and commands.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::catalogue::Experiment;

/// Version of the file format; others are rejected.
pub(super) const VERSION: u32 = 1;

/// The whole document.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Document {
    /// Version of the format.
    pub(crate) version: u32,
    /// Version of `phalanx`.
    pub(crate) phalanx: String,
    /// Time of the report, in seconds since 1970 UTC.
    pub(crate) made_at: u64,
    /// Whether it was a short run.
    pub(crate) quick: bool,
    pub(crate) processor: Option<String>,
    /// Number of usable cores.
    pub(crate) cores: usize,
    /// Name and release of the kernel.
    pub(crate) kernel: String,
    /// Whether the machine counts instructions, cycles and misses.
    #[serde(default)]
    pub(crate) hardware_counters: bool,
    /// Versions of the peers; `None` if not installed.
    pub(crate) peers: BTreeMap<String, Option<String>>,
    /// Experiments in the order of their runs.
    pub(crate) experiments: Vec<Entry>,
}

/// One experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Its name for `--only`.
    pub(crate) name: String,
    /// The command that was run.
    pub(crate) command: String,
    /// Duration.
    pub(crate) seconds: f64,
    /// Slowdown of the machine before and after, relative to its best.
    pub(crate) slowdown: [f64; 2],
    /// Whether the machine was disturbed, also in the repetition.
    pub(crate) noisy: bool,
    /// Output of the command.
    pub(crate) report: Option<Value>,
    /// Reason why there is no report.
    pub(crate) missing: Option<String>,
}

impl Entry {
    /// An experiment that was not measured.
    pub(super) fn missing(experiment: &Experiment, command: String, reason: &str) -> Self {
        Self {
            name: experiment.name.clone(),
            command,
            seconds: 0.0,
            slowdown: [1.0; 2],
            noisy: false,
            report: None,
            missing: Some(reason.to_owned()),
        }
    }

    /// The larger slowdown of the machine.
    pub(super) fn worst(&self) -> f64 {
        self.slowdown.into_iter().fold(1.0, f64::max)
    }

    /// One of its figures.
    pub(super) fn figure(&self, pointer: &str) -> Option<f64> {
        self.report.as_ref()?.pointer(pointer)?.as_f64()
    }

    /// Quartiles of a figure at the top level of the report, if present.
    pub(super) fn spread(&self, pointer: &str) -> Option<(f64, f64)> {
        let spread = &self.report.as_ref()?["spread"][pointer.strip_prefix('/')?];
        spread[0].as_f64().zip(spread[1].as_f64())
    }
}

impl Document {
    /// Reads an earlier document.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let document: Self = serde_json::from_slice(&fs::read(path)?)?;
        match document.version {
            VERSION => Ok(document),
            other => {
                Err(io::Error::other(format!("unsupported version {other}; expected {VERSION}")))
            }
        }
    }

    pub(super) fn entry(&self, name: &str) -> Option<&Entry> {
        self.experiments.iter().find(|entry| entry.name == name)
    }
}
