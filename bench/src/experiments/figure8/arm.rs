//! The servers that are compared.

use std::net::SocketAddr;
use std::str::FromStr;
use std::{fmt, io};

use phalanx::runtime::DriverChoice;
use phalanx_matcher::{Index, Snapshot};

use super::Options;
use super::staged::Division;
use super::{staged, twin};
use crate::experiments::matching;

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arm {
    /// A thread for each client.
    Twin,
    /// Staged; each processor matches with all subscriptions. At most so many events, if given, are matched together.
    Staged(Option<usize>),
    /// Staged; each processor owns a part of the subscriptions.
    Divided,
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twin => f.write_str("twin"),
            Self::Staged(None) => f.write_str("staged"),
            Self::Staged(Some(most)) => write!(f, "staged-{most}"),
            Self::Divided => f.write_str("divided"),
        }
    }
}

impl FromStr for Arm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "twin" => Ok(Self::Twin),
            "staged" => Ok(Self::Staged(None)),
            "divided" => Ok(Self::Divided),
            other => Err(format!("twin, staged or divided, not {other:?}")),
        }
    }
}

/// The indexes that the servers share.
pub(super) struct Indexes {
    whole: Option<Snapshot>,
    parts: Vec<Snapshot>,
    /// Bytes of the index of all subscriptions.
    pub(super) bytes: usize,
}

impl Indexes {
    /// Builds those that `arms` need.
    pub(super) fn build(options: &Options, arms: &[Arm]) -> Self {
        let Options { workload, subscriptions, chosen, seed, processors, .. } = *options;
        let whole = arms.iter().any(|arm| *arm != Arm::Divided);
        let parts = if arms.contains(&Arm::Divided) { processors } else { 0 };
        let mut whole = whole.then(|| matching::build(workload, subscriptions, chosen, seed).index);
        let divided = matching::divide(workload, subscriptions, chosen, seed, parts);
        Self {
            bytes: whole.as_ref().map_or(0, Index::bytes),
            whole: whole.as_mut().map(Index::snapshot),
            parts: divided.into_iter().map(|mut index| index.snapshot()).collect(),
        }
    }

    /// The index of all subscriptions.
    ///
    /// # Panics
    /// If no arm needs it.
    pub(super) fn whole(&self) -> &Snapshot {
        self.whole.as_ref().expect("an arm that needs it")
    }
}

impl Arm {
    /// Starts it with all threads on `cores`. A staged server has the driver.
    pub(super) fn start(
        self,
        indexes: &Indexes,
        cores: &[usize],
        processors: usize,
        driver: DriverChoice,
    ) -> io::Result<Running> {
        let division = match self {
            Self::Twin => return twin::start(cores, indexes.whole().clone()),
            Self::Staged(cohort) => Division::Whole(indexes.whole().clone(), cohort),
            Self::Divided => Division::Parts(indexes.parts.clone()),
        };
        staged::start(cores, processors, driver, division)
    }
}

/// A running server.
pub(super) struct Running {
    pub(super) address: SocketAddr,
    /// Stops it, after its clients have disconnected.
    pub(super) end: Box<dyn FnOnce()>,
}
