//! A processor: the scheduler of one thread.
//!
//! | folder | content |
//! |---|---|
//! | `part` | the fields of a processor, each part with its own methods |
//! | `operation` | an operation from its invocation to its end, and what wakes it |
//! | `run` | the loop, its turns, and the cohorts of a turn |
//! | `remote` | everything that crosses to other processors |
//! | `observe` | reports and records |
//! | `policy` | mechanisms that a stage or a graph opts into, cohort tuning and prefetching |
//!
//! `processor` composes the parts, `build` creates a processor on its thread, `enter` makes it the thread's current
//! one, `home` releases handles that were dropped elsewhere, `session` ends sessions, and `shutdown` drops everything
//! that remains.

pub(crate) mod build;
pub(crate) mod enter;
pub(crate) mod home;
pub(crate) mod observe;
pub(crate) mod operation;
pub(crate) mod part;
pub(crate) mod policy;
pub(crate) mod processor;
pub(crate) mod remote;
pub(crate) mod run;
pub(crate) mod session;
pub(crate) mod shutdown;

pub(crate) use enter::{current, on, try_current};
