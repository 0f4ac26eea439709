//! A processor: its loop, cohorts, and the life cycle of an operation.
//!
//! `remote` contains everything that crosses to other processors, `policy` the mechanisms that a stage opts
//! into.

pub(crate) mod build;
pub(crate) mod cohort;
pub(crate) mod cohort_stats;
pub(crate) mod enter;
pub(crate) mod harness;
pub(crate) mod home;
pub(crate) mod ingress;
pub(crate) mod lifecycle;
pub(crate) mod notify;
pub(crate) mod observe;
pub(crate) mod operations;
pub(crate) mod part;
pub(crate) mod policy;
pub(crate) mod processor;
pub(crate) mod remote;
pub(crate) mod shutdown;
pub(crate) mod turn;
pub(crate) mod waker;

pub(crate) use enter::{current, on, try_current};
