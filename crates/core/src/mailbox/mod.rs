//! The mailbox of a processor: messages from other threads, and parking.

pub(crate) mod command;
pub mod fault_injection;
pub(crate) mod mailbox;
pub(crate) mod message;
pub(crate) mod parking;
pub(crate) mod pending_requests;
pub(crate) mod registry;
pub(crate) mod visit;
