//! Readiness of descriptors, and transfers that continue when a descriptor is ready.

pub(crate) mod poller;
pub(crate) mod records;
pub(crate) mod transfer;
pub(crate) mod watch;
