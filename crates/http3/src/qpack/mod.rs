//! Header compression (RFC 9204), with the static table only.

pub(crate) mod decoder;
pub(crate) mod encoder;
pub(crate) mod instructions;
mod static_table;
