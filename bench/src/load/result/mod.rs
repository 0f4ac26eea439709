//! The counts of a run, and its report.

pub(crate) mod counts;
mod histograms;
pub(crate) mod report;
mod text;
