//! The data that stages pass to each other and keep: messages, sessions and their deliveries.

pub(crate) mod client_key;
pub(crate) mod delivery;
pub(crate) mod handed;
pub(crate) mod inflight;
pub(crate) mod maps;
pub(crate) mod message;
pub(crate) mod message_pool;
pub(crate) mod moving;
pub(crate) mod node_capacity;
pub(crate) mod qos2;
pub(crate) mod session;
pub(crate) mod stamp;
pub(crate) mod subscriptions;
pub(crate) mod topic_aliases;
pub(crate) mod waiting_sender;
