pub(crate) mod local;
pub(crate) mod ring;
pub(crate) mod timer_wheel;
