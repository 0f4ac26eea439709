//! Queues: a stage's local queue, the bounded ring between processors, and the timer wheel.

pub(crate) mod local;
pub(crate) mod ring;
pub(crate) mod timer_wheel;
