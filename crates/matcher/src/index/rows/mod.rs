//! The rows of an index in columns, by schema, piece, cluster and group, and the snapshots that contain them.

pub(crate) mod cluster;
pub(crate) mod decoding;
pub(crate) mod group;
pub(crate) mod location;
pub(crate) mod piece;
pub(crate) mod schema;
pub(crate) mod snapshot;
pub(crate) mod statistics;
