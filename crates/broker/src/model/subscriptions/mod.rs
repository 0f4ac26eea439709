//! The subscriptions of all clients: the subscribers of a topic filter, and the trie of topic filters.

pub(crate) mod group;
pub(crate) mod group_id;
pub(crate) mod subscribers;
pub(crate) mod subscription_size;
pub(crate) mod trie;
