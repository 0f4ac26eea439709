//! The subscriptions of all clients: those to a topic filter, and the tree of topic filters.

pub(crate) mod group;
pub(crate) mod group_id;
pub(crate) mod subscribers;
pub(crate) mod subscription_size;
pub(crate) mod trie;
