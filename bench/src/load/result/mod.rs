//! What was counted, and the report.

pub(crate) mod counts;
pub(crate) mod report;
mod text;
pub(crate) mod together;
