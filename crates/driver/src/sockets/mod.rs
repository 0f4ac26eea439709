//! Sockets: addresses, options, the table of open sockets, and attached connections.

pub(crate) mod address;
pub(crate) mod attached;
pub(crate) mod datagrams;
pub(crate) mod idle;
pub(crate) mod keepalive;
pub(crate) mod send;
pub(crate) mod socket_table;
pub(crate) mod steering;
