//! Header compression (RFC 7541).
//!
//! The decoder keeps the client's dynamic table. The encoder keeps none: it writes literals without indexing,
//! so that a field block does not depend on the connection, and prepared blocks can be shared by all
//! connections.

pub(crate) mod decoder;
mod dynamic_table;
pub mod encoder;
pub(crate) mod huffman;
pub(crate) mod integer;
pub(crate) mod static_table;
pub(crate) mod string;

pub(crate) use dynamic_table::MAX_SIZE as MAX_TABLE_SIZE;
