pub(crate) mod local;
pub(crate) mod queue_delay;
