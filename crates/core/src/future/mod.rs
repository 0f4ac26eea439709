//! Types that operations await: calls, joins, channels, timers and capacity.

pub(crate) mod call;
pub(crate) mod cancel_on_drop;
pub(crate) mod capacity;
pub(crate) mod drain;
pub(crate) mod join;
pub(crate) mod notify;
pub mod oneshot;
pub(crate) mod prefetch;
pub(crate) mod reply;
pub(crate) mod select;
pub(crate) mod sleep;
