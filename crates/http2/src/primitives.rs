//! Parts of header compression shared with HTTP/3: QPACK encodes integers and strings like HPACK (RFC 9204 §4.1).

/// Integers with a prefix (RFC 7541 §5.1).
pub mod integer {
    pub use crate::hpack::integer::{decode, encode};
}

/// Strings after a prefix (RFC 7541 §5.2).
pub mod string {
    pub use crate::hpack::string::decode;
}

/// The static table of HPACK (RFC 7541 §A).
pub mod static_table {
    pub use crate::hpack::static_table::get;
}
