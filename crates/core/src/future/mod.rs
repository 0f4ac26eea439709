//! Types that operations use and await: calls, joins, channels, timers, sessions, capacity and admission.

pub(crate) mod admission;
pub(crate) mod call;
pub(crate) mod capacity;
pub(crate) mod cohort;
pub(crate) mod deadline;
pub(crate) mod drain;
pub(crate) mod join;
pub(crate) mod notify;
pub mod oneshot;
pub(crate) mod pooled;
pub(crate) mod prefetch;
pub(crate) mod reply;
pub(crate) mod select;
pub(crate) mod session;
pub(crate) mod sleep;
