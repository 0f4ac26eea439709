//! Counters, histograms and recordings. One thread writes each counter; any thread reads it.

pub(crate) mod counter;
pub(crate) mod counters;
pub(crate) mod histogram;
pub(crate) mod operation_types;
pub(crate) mod recorder;
pub(crate) mod tuner;
pub(crate) mod type_name;
pub(crate) mod view;
pub(crate) mod watch;
