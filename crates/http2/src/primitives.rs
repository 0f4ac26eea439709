//! Parts of header compression that HTTP/3 shares: QPACK has the integers and the Huffman code of HPACK (RFC 9204 §4.1).

/// Integers with a prefix (RFC 7541 §5.1).
pub mod integer {
    pub use crate::hpack::integer::{decode, encode};
}

/// The Huffman code of strings (RFC 7541 §B).
pub mod huffman {
    pub use crate::hpack::huffman::{decode, encode, encoded_length};
}

/// The static table of HPACK (RFC 7541 §A).
pub mod static_table {
    pub use crate::hpack::static_table::get;
}
