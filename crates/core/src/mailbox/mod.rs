pub(crate) mod command;
#[cfg(feature = "plant")]
pub mod fault_injection;
pub(crate) mod mailbox;
pub(crate) mod parking;
