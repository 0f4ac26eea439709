//! Matching: one event at a time, or a cohort of events at the pieces.

pub(crate) mod choice;
pub(crate) mod matching;
pub(crate) mod queues;
