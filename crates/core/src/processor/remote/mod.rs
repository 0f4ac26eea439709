//! Operations, commands and sessions that cross to other processors.

pub(crate) mod accept;
pub(crate) mod call;
pub(crate) mod commands;
pub(crate) mod outbox;
pub(crate) mod reply;
pub(crate) mod session_group;
