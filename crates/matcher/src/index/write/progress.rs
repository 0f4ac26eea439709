//! The progress of a reorganization.

use super::advice::Advice;
use super::walk::Walk;

/// Number of rows sampled to choose access predicates.
pub(crate) const SAMPLE: usize = 4096;
/// Minimum number of changes before a reorganization starts.
pub(crate) const MIN_CHANGES: usize = 64;

/// Progress of a reorganization.
#[derive(Debug, Default)]
pub(crate) enum Reorganization {
    #[default]
    Not,
    /// Number of rows sampled so far.
    Sampling(usize, Advice),
    Choosing(Advice),
    Refiling(Walk),
}
