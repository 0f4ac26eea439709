//! Requests: the parsed head, and the parser of HTTP/1.1 heads and bodies.

pub(crate) mod body;
mod build;
pub(crate) mod chunk_extension;
pub(crate) mod fields;
pub(crate) mod framing;
pub(crate) mod head;
pub(crate) mod host;
pub(crate) mod line;
pub(crate) mod scan;
