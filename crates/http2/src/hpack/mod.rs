//! Header compression (RFC 7541).
//!
//! The decoder keeps the client's dynamic table. The encoder has no dynamic table: it writes literals without indexing,
//! so that field blocks do not depend on the connection, and all connections can share prepared blocks.

pub(crate) mod decoder;
mod dynamic_table;
pub mod encoder;
pub(crate) mod huffman;
pub(crate) mod integer;
pub(crate) mod static_table;
pub(crate) mod string;

pub(crate) use dynamic_table::MAX_SIZE as MAX_TABLE_SIZE;
