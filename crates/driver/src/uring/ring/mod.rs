//! The ring: its queues, its receive buffers, and the event that wakes it.

pub(crate) mod buffers;
pub(crate) mod queues;
pub(crate) mod setup;
pub(crate) mod wake;
pub(crate) mod window;
