pub(crate) mod counters;
pub(crate) mod histogram;
pub(crate) mod watch;
