//! Encodings of a file: precompressed files next to it, or compressed once for all requests.

pub(crate) mod encode;
pub(crate) mod make;
pub(crate) mod sources;
pub(crate) mod variants;
