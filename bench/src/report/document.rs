//! `report.json`: what was measured, where, and by which command.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::experiment::Experiment;

/// The file's form: a reader of another one says so.
pub(super) const VERSION: u32 = 1;

/// All of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Document {
    /// The form of this document.
    pub version: u32,
    /// Of `phalanx`.
    pub phalanx: String,
    /// Seconds since 1970, UTC.
    pub made_at: u64,
    /// Whether it was a short one.
    pub quick: bool,
    /// The processor's own name.
    pub processor: Option<String>,
    /// Cores that could be used.
    pub cores: usize,
    /// Name and release of the kernel.
    pub kernel: String,
    /// The others' versions; none for those that are not installed.
    pub peers: BTreeMap<String, Option<String>>,
    /// In the order in which they were run.
    pub experiments: Vec<Entry>,
}

/// One experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// As `--only` names it.
    pub name: String,
    /// What was run.
    pub command: String,
    /// How long it took.
    pub seconds: f64,
    /// How much slower than at its best the machine was before and after.
    pub slowdown: [f64; 2],
    /// Whether it was measured in a bad phase, also when it was repeated.
    pub noisy: bool,
    /// What the command has printed.
    pub report: Option<Value>,
    /// Why there is none.
    pub missing: Option<String>,
}

impl Entry {
    /// One that was not measured.
    pub(super) fn missing(experiment: &Experiment, command: String, why: &str) -> Self {
        Self {
            name: experiment.name.to_owned(),
            command,
            seconds: 0.0,
            slowdown: [1.0; 2],
            noisy: false,
            report: None,
            missing: Some(why.to_owned()),
        }
    }

    /// How much slower than at its best the machine was at worst.
    pub(super) fn worst(&self) -> f64 {
        self.slowdown.into_iter().fold(1.0, f64::max)
    }

    /// One of its figures.
    pub(super) fn figure(&self, pointer: &str) -> Option<f64> {
        self.report.as_ref()?.pointer(pointer)?.as_f64()
    }

    /// Between which half of the rounds of a figure at the report's top level lie, where it tells.
    pub(super) fn spread(&self, pointer: &str) -> Option<(f64, f64)> {
        let spread = &self.report.as_ref()?["spread"][pointer.strip_prefix('/')?];
        spread[0].as_f64().zip(spread[1].as_f64())
    }
}

impl Document {
    /// Reads an earlier one.
    ///
    /// # Errors
    /// When there is none at `path`, or of another form.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let document: Self = serde_json::from_slice(&fs::read(path)?)?;
        match document.version {
            VERSION => Ok(document),
            other => {
                Err(io::Error::other(format!("its version is {other}, and {VERSION} is read")))
            }
        }
    }

    pub(super) fn entry(&self, name: &str) -> Option<&Entry> {
        self.experiments.iter().find(|entry| entry.name == name)
    }
}
